import { Kafka, logLevel } from 'kafkajs'
import { percentile } from '../table.ts'

/*
 * kafkajs alone: one message a send, one send at a time, acknowledged by all replicas. Arguments: broker, topic, seconds, bytes of a
 * message. Prints what came of it as JSON; a warm-up of a third of the time, at least a second, comes before.
 */

const [broker, topic, seconds, bytes] = process.argv.slice(2) as [string, string, string, string]
const producer = new Kafka({ brokers: [broker], logLevel: logLevel.ERROR }).producer()
await producer.connect()
const messages = [{ value: Buffer.alloc(Number(bytes), 'x') }]
await send(Math.max(1, Math.ceil(Number(seconds) / 3)))
const times = await send(Number(seconds))
await producer.disconnect()
const sorted = Float64Array.from(times).sort()
const [p50, p99] = [percentile(sorted, 0.5), percentile(sorted, 0.99)]
console.log(JSON.stringify({ perSecond: times.length / Number(seconds), p50, p99 }))

async function send(seconds: number): Promise<number[]> {
  const taken: number[] = []
  const until = performance.now() + seconds * 1000
  for (let at = performance.now(); at < until; ) {
    await producer.send({ topic, acks: -1, messages })
    const now = performance.now()
    taken.push(now - at)
    at = now
  }
  return taken
}
