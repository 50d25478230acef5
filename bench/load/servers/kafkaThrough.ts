import { setTimeout as pause } from 'node:timers/promises'
import { Kafka, logLevel } from 'kafkajs'
import { percentile } from '../table.ts'

/*
 * kafkajs alone: from the time at which a message is due until a consumer of the same process has it, acknowledged by all replicas.
 * Arguments: broker, topic, messages a second, seconds, bytes of a message. Prints what came of it as JSON; a warm-up of a third of
 * the time, at least a second, comes before.
 */

const [broker, topic] = process.argv.slice(2) as [string, string]
const [rate, seconds, bytes] = process.argv.slice(4).map(Number) as [number, number, number]
const client = new Kafka({ brokers: [broker], logLevel: logLevel.NOTHING })
const producer = client.producer()
const consumer = client.consumer({ groupId: 'alone', maxWaitTimeInMs: 200 })
await producer.connect()
await consumer.connect()
await consumer.subscribe({ topic, fromBeginning: true })
const warm = Math.max(1, Math.ceil(seconds / 3)) * rate
const all = warm + seconds * rate
const dueAt = new Float64Array(all)
const times: number[] = []
let came = 0
const joined = new Promise(resolve => consumer.on(consumer.events.GROUP_JOIN, resolve))
await consumer.run({
  autoCommit: false,
  async eachBatch({ batch }) {
    const now = performance.now()
    for (const { value } of batch.messages) {
      const number = Number(value!.toString('latin1', 0, 9))
      if (number >= warm) times.push(now - dueAt[number]!)
      came++
    }
  }
})
await joined
const first = performance.now()
const refused: unknown[] = []
for (let sent = 0; sent < all; await pause(1)) {
  const due = Math.min(all, Math.floor(((performance.now() - first) * rate) / 1000) + 1)
  for (; sent < due; sent++) {
    dueAt[sent] = first + (sent * 1000) / rate
    const value = String(sent).padStart(9, '0').padEnd(bytes, 'x')
    producer.send({ topic, acks: -1, messages: [{ value }] }).catch(cause => refused.push(cause))
  }
}
for (const until = performance.now() + 10_000; came < all && performance.now() < until; ) await pause(5)
const sorted = Float64Array.from(times).sort()
const [p50, p99, worst] = [percentile(sorted, 0.5), percentile(sorted, 0.99), sorted.at(-1)]
console.log(JSON.stringify({ p50, p99, worst, missing: all - came + refused.length }))
await Promise.all([producer.disconnect(), consumer.disconnect()])
