import type { StreamingSettings } from '../../config/settings.ts'
import type { Clock, Log, Random } from '../../config/world.ts'
import type { Broker, Joining } from '../broker.ts'
import type { Budget } from '../budget.ts'
import type { Process } from '../connector.ts'
import type { Arrived, Message } from '../message.ts'
import type { DeliveryOptions } from '../options.ts'
import type { No } from '../refusals.ts'

/** Between a broker's records and the clients of a stream: what both sides see of it. */

/** Makes the bytes of one message for one kind of client of one stream. */
export interface Format {
  encode(item: Item): Buffer
}

/** What a format made. A hub may have the clients of several streams: each has formats of its own, and few are in use. */
export interface Made {
  readonly format: Format
  readonly bytes: Buffer
}

/** One message on its way to clients; shared by all of them. */
export interface Item {
  readonly record: Arrived
  /** Counts what arrived in this hub, from 0. */
  readonly seq: number
  /** `sizeOf` of the record. */
  readonly size: number
  /** Where a client goes on behind this message: its event id. Null: this one carries none. */
  readonly cursor: string | null
  /** How often it was handed to a client. */
  deliveries: number
  /** Bytes of each format, made once. */
  readonly encoded: Made[]
}

/** Items that go out together; shared, and so are their joined bytes. */
export interface Batch {
  readonly items: readonly Item[]
  /** All their bytes in one, made once a format. */
  joined(format: Format): Buffer
}

/** Bytes of one item in one format, made once. */
export function encoded(item: Item, format: Format): Buffer {
  const made = madeBy(format, item.encoded)
  if (made !== null) return made
  const bytes = format.encode(item)
  item.encoded.push({ format, bytes })
  return bytes
}

/** Null: it made none of them. */
export function madeBy(format: Format, all: readonly Made[]): Buffer | null {
  for (let i = 0; i < all.length; i++) if (all[i]!.format === format) return all[i]!.bytes
  return null
}

/** Why a client's connection ends; each transport has its own words for it. */
export type Ending =
  /** The client left or its connection broke. */
  | 'left'
  /** Its key was revoked, has expired or was changed. */
  | 'key'
  /** Its quota is used up. */
  | 'quota'
  /** The API is disabled, deleted, or its stream is gone. */
  | 'disabled'
  /** The stream was changed: come again. */
  | 'changed'
  /** The gateway stops: come again. */
  | 'stopping'
  /** `max_connection_age`: come again. */
  | 'age'
  /** It does not take what it is sent. */
  | 'slow'
  /** It sent what it must not. */
  | 'protocol'
  /** The stream cannot go on. */
  | 'fault'

/**
 * One who gets messages. Small, so that clients of other threads can stand behind it. The hub calls it; none of its
 * methods may throw.
 */
export interface Client {
  readonly transport: 'sse' | 'websocket' | 'poll'
  readonly format: Format
  /** Room for one more now; when it comes back, the client calls `Seat.ready`. */
  hasRoom(): boolean
  /** Null: it gets everything; else whether it gets this message. */
  readonly wants: ((item: Item) => boolean) | null
  /** Takes one; only when it has room. What is taken in one turn may leave together at `flush`. */
  take(item: Item): void
  /** Takes several that everybody gets; only when it has room. */
  takeAll(batch: Batch): void
  flush(): void
  /** Messages that it should have got are gone for good; `items` of them, -1: nobody knows how many. `cursor`: where it goes on. */
  gap(items: number, cursor: string): void
  /** Ends its connection. `hub.leave` follows from it. */
  close(why: Ending): void
}

/** A client's place in a hub. */
export interface Seat {
  /** The first `count` of what it took and was not counted before is with the client (`ack: write`: delivered). */
  written(count: number): void
  /** The client has everything up to this cursor (`ack: client`). False: that id is not under way. */
  acknowledge(cursor: string): boolean
  /** The client has room again. */
  ready(): void
  /** Ends the membership; what it was given and is not delivered goes to others. */
  leave(): void
  /** Where a client goes on that has got everything up to now; null in group mode. */
  cursor(): string | null
}

/** Where a client wants to begin; counts in `broadcast`. */
export type From = 'latest' | 'earliest' | { readonly cursor: string } | { readonly timestamp: number }

export interface HubStatus {
  readonly state: 'idle' | 'joining' | 'active' | 'degraded' | 'closing'
  readonly clients: { readonly sse: number; readonly websocket: number; readonly poll: number }
  readonly delivered: number
  readonly deliveredBytes: number
  /** Messages in the hub that no client has got. */
  readonly queued: number
  readonly redelivered: number
  /** Given up: by a client's queue policy, or after `max_deliveries` without a dead-letter topic. */
  readonly dropped: number
  /** To the dead-letter topic. */
  readonly deadLettered: number
  /** Messages of these partitions behind what was delivered; -1: unknown. */
  readonly lag: number
  readonly partitions: number
  readonly paused: number
  readonly lastError: string | null
}

export interface Hub {
  /** A refusal when it cannot be: too many, the budget, a cursor that is none. */
  join(client: Client, from: From | null): Seat | No
  status(): HubStatus
  /** Closes every client, spread over `spreadMs`, commits and leaves its groups. */
  close(why: Ending, spreadMs: number): Promise<void>
}

/** Whose clients some of a hub's are: a stream of those that share it. */
export interface Owner {
  readonly clients: Set<Client>
  /** Of what its clients got; null: they all get the same, and the hub counts it. */
  readonly counts: Delivered | null
}

export interface Delivered {
  delivered: number
  deliveredBytes: number
  redelivered: number
}

/** A hub that several streams may share: what each allows its own clients (`max_clients`, `require_broker`) is theirs to check. */
export interface SharedHub extends Hub {
  /** @param owner keeps the client among its own until it leaves */
  join(client: Client, from: From | null, owner?: Owner): Seat | No
  /** What keeps it from being read now, as far as is known. */
  trouble(): string | null
}

/** Where a hub's messages come from. */
export interface Source {
  readonly broker: Broker
  readonly joining: Joining
}

/** What `groupHub` and `broadcastHub` are made of. */
export interface HubGiven {
  /** At least one. `broadcastHub` reads their topics without their groups. */
  readonly sources: readonly Source[]
  readonly options: DeliveryOptions
  /** Commits are at least so far apart. */
  readonly commitMs: number
  /** Records held of one partition; above it the broker is told to pause, at half of it to go on. */
  readonly bufferMessages: number
  readonly bufferBytes: number
  /** Messages of one partition that are with clients and not delivered, at most. */
  readonly checkpointLimit: number
  /** Run over each record when it comes; what they filter out counts as delivered, what they reject as dropped. */
  readonly process: readonly Process[]
  /** Takes what was delivered too often; null: it is dropped. @throws Undelivered */
  readonly deadLetter: ((message: Message) => Promise<void>) | null
  readonly settings: StreamingSettings
  readonly budget: Budget
  /** Signs cursors. */
  readonly secret: Buffer
  readonly clock: Clock
  readonly log: Log
  readonly random: Random
  /** For logs. */
  readonly api: string
  readonly stream: string
}
