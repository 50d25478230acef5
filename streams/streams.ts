import type { Call } from './call.ts'
import type { Ending, HubStatus } from './hub/hub.ts'
import type { StreamPlan } from './plan.ts'

/** One API's streams as the gateway hands them over. */
export interface StreamingApi {
  readonly id: string
  readonly orgId: string
  /** False: its streams stand still, and its connections are closed. */
  readonly isActive: boolean
  readonly plans: readonly StreamPlan[]
  /** Who is let in, and where: when it changes, whoever is in must come in again. */
  readonly access: string
}

/** One row of `GET /svc/streams`. */
export interface StreamStatus {
  readonly api_id: string
  readonly stream: string
  readonly state: HubStatus['state'] | 'active' | 'degraded' | 'idle'
  readonly mode: string
  readonly clients: { readonly sse: number; readonly websocket: number; readonly poll: number }
  readonly produced: number
  readonly delivered: number
  readonly queued: number
  readonly redelivered: number
  readonly dropped: number
  readonly lag: number
  readonly partitions: number
  readonly last_error: string | null
}

/** All streams of this process. */
export interface Streams {
  /** Takes over what changed: streams that are the same go on with their clients, others drain and come anew. */
  apply(changed: readonly StreamingApi[], removed: readonly string[]): void
  /** Answers the call: always, one way or another. */
  handle(apiId: string, call: Call): void
  /** The requests whose connections are open now. */
  calls(): Iterable<Call>
  /** Ends the connections for which this is true. */
  end(is: (call: Call) => boolean, why: Ending): void
  status(): readonly StreamStatus[]
  /** New streams are refused from now on. Closes every connection over `streaming.drain_timeout`, commits, leaves, flushes. */
  drain(): Promise<void>
}
