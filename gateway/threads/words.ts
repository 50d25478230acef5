import type { Settings } from '../../config/settings.ts'
import type { SharedCounters } from '../counters/memory.ts'
import type { FilesRead } from '../documents/files.ts'
import type { Change, Kind, Query, Sequence, Walk } from '../store/store.ts'
import type { TicketSeed } from '../tls/tickets.ts'
import type { RelayPlace } from './relayed.ts'

/** What a thread is started with. */
export interface Given {
  /** From 1; stands in its log lines. */
  readonly number: number
  readonly settings: Settings
  readonly relay: RelayPlace
  /** Null: no TLS. */
  readonly tickets: TicketSeed | null
  /** Those in memory, which all threads share; null: they lie outside of the process. */
  readonly counters: SharedCounters | null
}

/** What the main thread asks of a thread. */
export type Task =
  /** Answered once everything here counts by them. */
  | { readonly is: 'changes'; readonly changes: readonly Change[] | null }
  /** Answers its `AddressInfo`. */
  | { readonly is: 'listen'; readonly port: number; readonly address: string }
  /** Reads everything, the folders out of this; answered once requests are served by it: the faults that keep the old state, or none. */
  | { readonly is: 'load'; readonly files: FilesRead }
  /** Answers what the counters dump. */
  | { readonly is: 'dump'; readonly limit: number }
  | { readonly is: 'announceEnd' }
  /** Answered when no more requests come, and those that came for the main thread are on their way. */
  | { readonly is: 'stopListening' }
  /** Answered once no request is under way (cut off after `ms`) and nothing is left to write: what the counters dump. */
  | { readonly is: 'drain'; readonly ms: number }

/** What a thread asks of the main thread. */
export type Question =
  /** What fails of its counters outside of the process; null: nothing any more. */
  | { readonly is: 'counters'; readonly failure: string | null }
  /** Whole lines: of the access log as they are, of the log as `LogLine`s. */
  | { readonly is: 'lines'; readonly of: 'access' | 'log'; readonly text: string }
  | StoreQuestion

/** A `Store`; documents and writes are JSON. `walk` answers a number, `next` of it the next slice or null, `leave` ends it early. */
export type StoreQuestion =
  | { readonly is: 'get'; readonly kind: Kind; readonly id: string }
  | { readonly is: 'list'; readonly kind: Kind; readonly query: Query }
  | { readonly is: 'since'; readonly sequence: Sequence; readonly kinds: readonly Kind[] | undefined }
  | { readonly is: 'sequence' }
  | { readonly is: 'commit'; readonly writes: string }
  | { readonly is: 'walk'; readonly kind: Kind; readonly query: Walk }
  | { readonly is: 'next' | 'leave'; readonly walk: number }

export type LogLine = readonly [
  level: 'debug' | 'info' | 'warn' | 'error',
  msg: string,
  fields: Record<string, unknown>
]
