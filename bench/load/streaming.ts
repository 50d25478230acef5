import { fileURLToPath } from 'node:url'
import { kafka, type TestKafka } from '../../test/helpers/kafka.ts'
import { MESSAGE_BYTES, message } from './clients/job.ts'
import { flags, gateway, type StartedGateway } from './contenders.ts'
import type { ApiOptions } from './documents.ts'
import { pinned } from './machine.ts'
import { type Running, start } from './processes.ts'
import type { Options } from './scenario.ts'

/** What the benches of streams share: a gateway with a streaming API, an Apache Kafka, and bare servers beside. */

export const listenPath = '/stream'

/** Where a stream's messages lie. */
export interface Topic {
  readonly addresses: readonly string[]
  readonly topic: string
}

/** The gateway's embedded broker. */
export const embedded: Topic = { addresses: ['memory://bench'], topic: 'bench' }

/** POST `path` → topic; the answer comes when all replicas have it. */
export function produced(path: string, { addresses, topic }: Topic): object {
  return { input: { http_server: { path } }, output: { kafka: { addresses, topic, ack_replicas: true } } }
}

/** Topic → SSE at `path`/sse, WebSocket at `path`/ws. */
export function delivered(path: string, { addresses, topic }: Topic, mode: 'group' | 'broadcast'): object {
  const server = { stream_path: `${path}/sse`, ws_path: `${path}/ws`, mode }
  const group = `bench${path.replaceAll('/', '-')}`
  return { input: { kafka: { addresses, topics: [topic], consumer_group: group } }, output: { http_server: server } }
}

/** As many clients as any scenario has. */
const switches = {
  SVC_GATEWAY__STREAMING__ENABLED: 'true',
  SVC_GATEWAY__STREAMING__MAX_CLIENTS: '20000',
  SVC_MANAGEMENT__STREAMING__ENABLED: 'true'
}

const nowhere: Running = {
  name: 'none',
  pid: 0,
  url: 'http://127.0.0.1:9',
  management: null,
  mustRun() {},
  async stop() {}
}

export interface Streaming {
  readonly streams: Readonly<Record<string, object>>
  /** Other APIs, and where they go. */
  readonly apis?: (upstream: string) => readonly ApiOptions[]
  readonly upstream?: Running
}

/** A fresh gateway that serves these streams at `/stream`. */
export async function streaming({ env }: Options, given: Streaming): Promise<StartedGateway> {
  const { streams, apis = () => [], upstream = nowhere } = given
  const started = await gateway({ name: 'gateway', env: { ...switches, ...env }, apis }).start(upstream)
  await started.svc('POST', '/svc/apis/oas', {
    openapi: '3.0.3',
    info: { title: 'stream', version: '1' },
    paths: {},
    'x-svc-api-gateway': {
      info: { id: 'stream', name: 'stream', state: { active: true } },
      upstream: { url: '' },
      server: { listenPath: { value: `${listenPath}/`, strip: true }, authentication: { enabled: false } }
    },
    'x-svc-streaming': { streams }
  })
  await started.svc('GET', '/svc/reload?block=true')
  return started
}

export interface BenchKafka extends TestKafka {
  /** A new topic of one partition, for one measurement. */
  fresh(): Promise<Topic>
  end(): Promise<void>
}

/** On the generator's core, with all of Java's compiler. */
export async function startKafka(): Promise<BenchKafka> {
  const ends: (() => unknown)[] = []
  const wrap = (program: string, args: readonly string[]) => pinned('others', program, args)
  const server = await kafka({ teardown: end => void ends.push(end) }, { use: 'bench', wrap })
  return {
    ...server,
    fresh: async () => ({ addresses: server.brokers, topic: await server.topic() }),
    async end() {
      for (const end of ends.reverse()) await end()
    }
  }
}

/** A message in the frame that the gateway gives it, the id's length included. */
const frames = {
  sse: `id: 1.0-1234567.abcdefghijklmnop\ndata: ${message(0)}\n\n`,
  websocket: message(0)
}
const scripts = { sse: 'servers/bareSse.ts', websocket: 'servers/bareWs.ts' }

/** @param writes to begin with so many clients; 0: never */
export function startBare(transport: 'sse' | 'websocket', writes: number): Promise<Running> {
  const file = fileURLToPath(new URL(scripts[transport], import.meta.url))
  const args = [...flags, file, frames[transport], String(writes)]
  return start({ name: `bare ${transport}`, place: 'gateway', program: process.execPath, args, port: null })
}

export const described = `${MESSAGE_BYTES}-byte messages`
