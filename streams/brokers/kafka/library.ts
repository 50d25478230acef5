import { createRequire } from 'node:module'
import type { Socket } from 'node:net'

/**
 * The parts of kafkajs 2.2.4 that are used here: its connections with their logins, and the encoding of requests. Its producer
 * and consumer are not: a failed `send` does not tell whether something was written, sequences of its idempotent producer are given to
 * other messages after an unknown outcome (the broker then drops those as repeats), and its consumer dies of a batch that it cannot read,
 * commits by itself what it resets, and reads from given places only as a member of a group.
 * These parts are not in its types, and the package is complete: 2.2.4 is of 2023 and its last.
 */

export interface WireRequest {
  readonly apiKey: number
  readonly apiVersion: number
  readonly apiName: string
  encode(): Promise<{ readonly buf: Buffer; readonly buffer: Buffer }>
}

export interface WireResponse {
  decode(raw: Buffer): Promise<unknown>
  parse(decoded: unknown): Promise<unknown>
}

export interface Exchange {
  readonly request: WireRequest
  readonly response: WireResponse
  readonly requestTimeout?: number | null
  readonly logResponseError?: boolean
}

export type Versions = Record<number, { readonly minVersion: number; readonly maxVersion: number }>

/** One connection to one node. */
export interface Connection {
  readonly versions: Versions | null
  connect(): Promise<unknown>
  setVersions(versions: Versions): void
  setSupportAuthenticationProtocol(isSupported: boolean): void
  authenticate(): Promise<void>
  isConnected(): boolean
  nextCorrelationId(): number
  readonly requestQueue: RequestQueue
  send(exchange: Exchange): Promise<unknown>
  disconnect(): Promise<unknown>
  /** Fails all that wait for an answer. */
  rejectRequests(error: Error): void
}

export type OpenSocket = (to: { host: string; port: number; ssl: object | null; onConnect: () => void }) => Socket

export interface Sasl {
  readonly mechanism: string
  readonly username?: string
  readonly password?: string
  readonly oauthBearerProvider?: () => Promise<{ value: string }>
}

interface ConnectionGiven {
  readonly host: string
  readonly port: number
  readonly ssl: object | null
  readonly sasl: Sasl | null
  readonly clientId: string
  readonly connectionTimeout: number
  readonly requestTimeout: number
  readonly enforceRequestTimeout: boolean
  readonly socketFactory: OpenSocket
  readonly logger: unknown
}

interface Definition {
  readonly protocol: (of: { version: number }) => (args?: object) => Exchange
}

interface LogEntry {
  readonly namespace: string
  readonly label: string
  readonly log: { readonly message: string } & Record<string, unknown>
}

interface RequestQueue {
  readonly throttledUntil: number
  readonly pending: readonly unknown[]
  throttleCheckTimeoutId: NodeJS.Timeout | null
  checkPendingRequests(): void
  /** Sends it at once, or later if the broker asked for that. */
  push(request: {
    readonly entry: {
      readonly apiKey: number
      readonly apiName: string
      readonly apiVersion: number
      readonly correlationId: number
      resolve(answer: { readonly payload: Buffer }): void
      reject(error: Error): void
    }
    readonly expectResponse: true
    readonly requestTimeout: null
    sendRequest(): void
  }): void
  maybeThrottle(ms: number | undefined): void
}

export interface MemberAssignment {
  readonly assignment: Record<string, number[]>
}

// Without it every producer of kafkajs warns of a partitioner that is not used here.
process.env.KAFKAJS_NO_PARTITIONER_WARNING ??= '1'
const load = createRequire(import.meta.url)

export const KafkaConnection = load('kafkajs/src/network/connection.js') as new (given: ConnectionGiven) => Connection
export const apiKeys = load('kafkajs/src/protocol/requests/apiKeys.js') as Record<string, number>
const protocol = load('kafkajs/src/protocol/requests/index.js') as {
  requests: Record<string, Definition>
  lookup(versions: Versions): (apiKey: number, definition: Definition) => (args?: object) => Exchange
}
export const { requests, lookup } = protocol
const assigner = load('kafkajs/src/consumer/assignerProtocol.js') as {
  MemberMetadata: {
    encode(of: { version: number; topics: readonly string[] }): Buffer
    decode(from: Buffer): { topics: string[] }
  }
  MemberAssignment: {
    encode(of: { version: number; assignment: Record<string, number[]> }): Buffer
    decode(from: Buffer): MemberAssignment | null
  }
}
export const { MemberMetadata, MemberAssignment } = assigner
const loggers = load('kafkajs/src/loggers/index.js') as {
  createLogger(given: { level: number; logCreator: () => (entry: LogEntry) => void }): unknown
}

/** Everything kafkajs logs, at its level of detail. */
export const createLogger = (level: number, write: (entry: LogEntry) => void): unknown =>
  loggers.createLogger({ level, logCreator: () => write })

/** Who is held back by more requests than may be under way, not by the broker's wish, looks again after so long. */
const throttledMs = 10
// A queue that nothing throttles asks for a timer of a negative time after every request, which Node 24 and later warn of; such a
// timer has nothing to do when nothing is pending. https://github.com/tulios/kafkajs/issues/1751
const { prototype } = load('kafkajs/src/network/requestQueue/index.js') as {
  prototype: { scheduleCheckPendingRequests(this: RequestQueue): void }
}
prototype.scheduleCheckPendingRequests = function () {
  if (this.pending.length === 0 || this.throttleCheckTimeoutId !== null) return
  this.throttleCheckTimeoutId = setTimeout(
    () => {
      this.throttleCheckTimeoutId = null
      this.checkPendingRequests()
    },
    Math.max(throttledMs, this.throttledUntil - Date.now())
  )
}
