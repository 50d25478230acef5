import { Agent, request } from 'node:http'
import { Kafka, logLevel } from 'kafkajs'
import { type Feed, message } from './job.ts'

/** Puts messages with these numbers into a stream, in order. Rejects when one was not accepted. */
export interface Source {
  send(from: number, count: number): Promise<void>
  close(): Promise<void>
}

export async function source(feed: Feed): Promise<Source> {
  if (feed.to === 'http') return posts(feed)
  const producer = new Kafka({ brokers: [...feed.brokers], logLevel: logLevel.ERROR }).producer()
  await producer.connect()
  return {
    async send(from, count) {
      const messages = Array.from({ length: count }, (_, i) => ({ value: message(from + i), partition: 0 }))
      await producer.send({ topic: feed.topic, acks: 1, messages })
    },
    close: () => producer.disconnect()
  }
}

function posts({ url, posts }: Extract<Feed, { to: 'http' }>): Source {
  const agent = new Agent({ keepAlive: true, maxSockets: 64 })
  const post = (type: string, body: string) =>
    new Promise<void>((resolve, reject) => {
      const headers = { 'Content-Type': type, 'Content-Length': body.length }
      const req = request(url, { agent, method: 'POST', headers }, res => {
        res.resume().on('end', () => {
          if (res.statusCode === 200) resolve()
          else reject(new Error(`POST: ${res.statusCode}`))
        })
      })
      req.on('error', reject)
      req.end(body)
    })
  return {
    async send(from, count) {
      if (posts === 'alone') {
        for (let i = 0; i < count; i++) await post('application/json', message(from + i))
      } else {
        const lines = Array.from({ length: count }, (_, i) => message(from + i))
        await post('application/x-ndjson', lines.join('\n'))
      }
    },
    async close() {
      agent.destroy()
    }
  }
}
