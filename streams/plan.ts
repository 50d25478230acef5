import type { Connector, Step } from './connector.ts'

/** One stream of a document, read and checked. */
export interface StreamPlan {
  readonly name: string
  /** Of all that it says; equal: the same stream, which goes on across a reload. */
  readonly hash: string
  readonly input: Connector
  readonly processors: readonly Step[]
  readonly output: Connector
}

/** What a path of an `http_server` does. */
export type EndpointKind = 'produce' | 'produce_websocket' | 'poll' | 'stream' | 'acknowledge' | 'websocket'

/** One path of a stream. */
export interface Endpoint {
  readonly kind: EndpointKind
  readonly stream: string
  /** Methods that it takes; a WebSocket path takes `GET` alone. */
  readonly verbs: readonly string[]
  /** Begins with `/`; a segment `{name}` takes any one segment. */
  readonly path: string
  /** Which `http_server` of the stream it belongs to: its index among the inputs or the outputs, in the order of the document. */
  readonly of: number
}
