import type { Seen } from '../cursor.ts'
import type { Client, Item, Owner, Seat } from '../hub.ts'
import type { Backlog } from './backlog.ts'
import type { Vector } from './parts.ts'

/** A cursor that names offsets. */
export type Named = Seen & { readonly timestamp: null }

/** Where a client wants to begin. */
export type Start =
  /** `isLossy`: it came with a cursor that is not gone by. */
  | { readonly kind: 'latest'; readonly isLossy: boolean }
  /** `text`: the cursor that it came with. */
  | { readonly kind: 'vector'; readonly seen: Named; readonly text: string }
  /** 0: at the oldest. */
  | { readonly kind: 'time'; readonly ms: number }

/** Reads history for one client. */
export interface History {
  /** Its turn. What it cost, in client writes. */
  serve(): number
  cursor(): string | null
  close(): void
}

/** What a seat asks of its hub. */
export interface Seats {
  written(member: Member): void
  ready(member: Member): void
  leave(member: Member): void
  cursor(member: Member): string | null
}

/** It stands in no window: its beginning is being found out, or it reads history. */
export const NOWHERE = -1

/** One client of a broadcast: a position in the window. */
export class Member implements Seat {
  readonly client: Client
  readonly wants: ((item: Item) => boolean) | null
  /** It comes for a moment and says itself how many it takes: no policy is for it. */
  readonly isPoll: boolean
  readonly start: Start
  /** Null: the hub is one stream's alone. */
  readonly owner: Owner | null
  /** Ms since the epoch. */
  readonly joined: number
  readonly #seats: Seats
  /** Its place in the list of members. */
  index = 0
  /** Sequence number of the next message to be handed to it, or `NOWHERE`. */
  position = NOWHERE
  /** It gets what everybody gets, as whole batches, whenever it has room. */
  isPlain = false
  /** It has been abreast of the window: from then on the bounds of its queue count. */
  isLive = false
  /** It stands in the line of those whose turn it is to be served. */
  isQueued = false
  isGone = false
  /** Taken and not with the client yet; the bytes are an estimate after a part of it was written. */
  unwritten = 0
  unwrittenBytes = 0
  /** How often something of it was written: it reads. */
  writes = 0
  /** Its `writes` when it was waited for last. */
  waitedAt = -1
  /** Since when it is behind by more than its queue, ms since the epoch; 0: it is not. */
  beyondAt = 0
  /** When it was seen to read, since then. */
  movedAt = 0
  /** Its `writes` then. */
  writesSeen = 0
  /** To be told as lost, once it has room; -1: nobody knows how many. */
  missed = 0
  /** What it has got, until nothing in the window can be below; `hadUntil`: nothing is from there on. */
  had: Vector | null = null
  hadUntil = 0
  /** Where it goes on while it stands nowhere, or since the window has moved past its position. */
  vector: Vector | null = null
  /** Timestamp of the record there. */
  vectorMs: number
  /** Null: it waits as a position in the window. */
  backlog: Backlog | null = null
  catchUp: History | null = null
  /** It holds one of the process's places for readers of history. */
  hasReader = false
  /** Its turn in the line for one. */
  turn: (() => void) | null = null
  /** Messages taken since one carried an id. */
  sinceId = Number.MAX_SAFE_INTEGER

  constructor(client: Client, start: Start, joined: number, seats: Seats, owner: Owner | null) {
    this.client = client
    this.wants = client.wants
    this.isPoll = client.transport === 'poll'
    this.start = start
    this.joined = joined
    this.vectorMs = start.kind === 'time' ? start.ms : 0
    this.#seats = seats
    this.owner = owner
  }

  written(count: number): void {
    this.writes++
    if (count >= this.unwritten) {
      this.unwritten = 0
      this.unwrittenBytes = 0
    } else {
      this.unwrittenBytes -= (this.unwrittenBytes * count) / this.unwritten
      this.unwritten -= count
    }
    this.#seats.written(this)
  }

  /** Nothing waits for acknowledgements here. */
  acknowledge(): boolean {
    return false
  }

  ready(): void {
    this.#seats.ready(this)
  }

  leave(): void {
    if (!this.isGone) this.#seats.leave(this)
  }

  cursor(): string | null {
    return this.#seats.cursor(this)
  }

  /** @param items -1: nobody knows how many */
  miss(items: number): void {
    this.missed = items < 0 || this.missed < 0 ? -1 : this.missed + items
    this.isPlain = false
  }
}
