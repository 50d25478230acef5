import type { TSchema } from 'typebox'
import type { Clock, Log, Random } from '../config/world.ts'
import type { Broker } from './broker.ts'
import type { Call } from './call.ts'
import type { Message, Placed } from './message.ts'

/** What a connector is; `catalogue.ts` is the one list of them. */

/** Tells one fault of a document: where it is, as a JSON pointer below the connector's options, and what was expected. */
export type Fault = (pointer: string, message: string) => void

/** Where messages go. */
export interface Output {
  /**
   * Resolves when all are with the other side (written, acknowledged, delivered). Where each went; null: it has no such place.
   * @param call of the request that they came with, for variables; null: they came another way
   * @param deadline milliseconds since the epoch
   * @throws Undelivered
   */
  send(messages: readonly Message[], call: Call | null, deadline: number): Promise<readonly (Placed | null)[]>
  /** What keeps it from working now; null: nothing. */
  fault(): string | null
  /** Ends what is under way. */
  close(): Promise<void>
}

/** Takes what an input brings; resolves when it is delivered (or was filtered out), and the input goes on. @throws Undelivered */
export type Deliver = (messages: readonly Message[]) => Promise<void>

/** A source that runs by itself. It waits for `deliver` before it takes more than its bound, and tries again what was not delivered. */
export interface Input {
  fault(): string | null
  /** None: it counts nothing. */
  status?(): InputStatus
  close(): Promise<void>
}

/** Counts of an input since its start. */
export interface InputStatus {
  /** Messages given up. */
  readonly dropped: number
  /** Messages offered once more. */
  readonly redelivered: number
  /** Messages of its partitions behind what was delivered. */
  readonly lag: number
  readonly partitions: number
}

export interface ConnectorTools {
  readonly clock: Clock
  readonly log: Log
  readonly random: Random
  /** Tells this stream in logs and names. */
  readonly api: string
  readonly stream: string
  /** One broker a cluster and credential, shared; `close` gives it back. */
  broker(options: BrokerOptions): Broker
  /** Opens the connectors below a `broker`. */
  output(connector: Connector): Output
  input(connector: Connector, deliver: Deliver): Input
}

/** What tells one cluster and credential from another; the options of a `kafka` connector. */
export interface BrokerOptions {
  readonly addresses: readonly string[]
  readonly client_id?: string
  readonly tls?: object
  readonly sasl?: object
}

/** One connector of a document, checked; `options` as its shape says. */
export interface Connector {
  readonly kind: string
  readonly label: string
  readonly options: unknown
  /** Run behind an input, or before an output. */
  readonly processors: readonly Step[]
  /** Connectors below a `broker`. */
  readonly children: readonly Connector[]
}

/** One processor of a document, checked. */
export interface Step {
  readonly kind: string
  readonly options: unknown
}

export interface OutputKind {
  readonly name: string
  readonly shape: TSchema
  /** What the shape cannot say. */
  check?(options: unknown, fault: Fault): void
  open(connector: Connector, tools: ConnectorTools): Output
}

export interface InputKind {
  readonly name: string
  readonly shape: TSchema
  check?(options: unknown, fault: Fault): void
  open(connector: Connector, deliver: Deliver, tools: ConnectorTools): Input
}

/**
 * What processors make of one message: the message (perhaps changed), or null: it goes no further.
 * @throws Undelivered ('invalid') when the message does not fit
 */
export type Process = (message: Message) => Message | null

export interface ProcessorKind {
  readonly name: string
  check(options: unknown, fault: Fault): void
  make(options: unknown): Process
}
