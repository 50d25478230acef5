import Type from 'typebox'
import { NoQuery } from '../apiDocuments.ts'
import { type Endpoint, endpoint } from '../endpoint.ts'

/** What the streams of this process do now (outside.md §5). */

const strict = { additionalProperties: false } as const
const Count = (description: string) => Type.Integer({ minimum: 0, description })

const Row = Type.Object(
  {
    api_id: Type.String(),
    stream: Type.String({ description: 'Its name in the API' }),
    state: Type.Enum(['idle', 'joining', 'active', 'degraded', 'closing'], {
      description: '`idle`: nobody listens, so nothing is read; `degraded`: `last_error` says why'
    }),
    mode: Type.Enum(['group', 'broadcast', 'key', 'produce', 'relay'], {
      description: 'How messages are shared out; `produce`: clients send; `relay`: no client at either end'
    }),
    clients: Type.Object({ sse: Count('SSE'), websocket: Count('WebSocket'), poll: Count('Waiting polls') }, strict),
    produced: Count('Messages that clients sent'),
    delivered: Count('Messages delivered to clients, or to the other side'),
    queued: Count('Messages here that no client has yet'),
    redelivered: Count('Messages given to another client'),
    dropped: Count('Messages given up'),
    lag: Type.Integer({ minimum: -1, description: 'Messages at the broker behind what was delivered; -1: unknown' }),
    partitions: Count('Partitions read here'),
    last_error: Type.Union([Type.String(), Type.Null()])
  },
  strict
)

export const listStreams = endpoint({
  method: 'GET',
  path: '/svc/streams',
  door: 'gateway',
  summary: 'What the streams of this process do now',
  params: Type.Object({}, strict),
  query: NoQuery,
  bodyForm: 'none',
  body: Type.Unknown(),
  malformed: '',
  answer: Type.Object({ streams: Type.Array(Row) }, strict),
  handle(_call, { streams }) {
    return { streams: [...streams.status()] }
  }
})

export const svcStreams: readonly Endpoint[] = [listStreams]
