import type { Cursors } from '../cursor.ts'
import type { HubGiven, Item } from '../hub.ts'
import { type Entry, EVERY_EVENT_UP_TO, type SharedBatch } from './entry.ts'
import { type Member, NOWHERE } from './member.ts'
import type { Parts, Vector } from './parts.ts'
import { CAUGHT_UP, fullness, isSlow, isSlowForGood } from './slow.ts'
import type { Tally } from './tally.ts'
import type { Window } from './window.ts'

/** Messages that one client takes, or a filter looks at, in one go. */
const MOST_AT_ONCE = 500
/** So many messages cost about as much as one client write: to process, to filter, to put into a frame. */
export const MESSAGES_A_WRITE = 8

export interface ServingHost {
  readonly given: HubGiven
  readonly parts: Parts
  readonly window: Window
  readonly cursors: Cursors
  readonly tally: Tally
  /** The window has moved past it; `member.vector` says where it stood. */
  fallen(member: Member): void
}

/**
 * Each client on its own, where it does not simply get what everybody gets: from where it stands in the window, or from its backlog,
 * under the policy of its queue.
 */
export class Serving {
  readonly #host: ServingHost
  readonly #queue: (member: Member) => void
  /** Those who are not abreast of the window. */
  readonly #behind = new Set<Member>()

  /** @param queue it is to be served */
  constructor(host: ServingHost, queue: (member: Member) => void) {
    this.#host = host
    this.#queue = queue
  }

  /** It stands in the window from here on. */
  attach(member: Member, position: number): void {
    member.position = position
    this.#settle(member)
    this.#queue(member)
  }

  detach(member: Member): void {
    member.position = NOWHERE
    member.isPlain = false
    this.#behind.delete(member)
  }

  /** Something may have changed for it. */
  ready(member: Member): void {
    if (member.catchUp !== null || this.#behind.has(member) || member.missed !== 0) this.#queue(member)
  }

  /** It keeps abreast no more, for want of room. */
  isBehind(member: Member): boolean {
    return member.isLive && this.#behind.has(member)
  }

  hasRoom({ isPoll, unwritten, unwrittenBytes, client, isGone }: Member): boolean {
    const { queue } = this.#host.given.options
    const isFull = !isPoll && (unwritten >= queue.messages || unwrittenBytes >= queue.bytes)
    return !isFull && !isGone && client.hasRoom()
  }

  /** Hands it one; it has room. */
  give(member: Member, entry: Entry): void {
    const { tally } = this.#host
    member.unwritten++
    member.unwrittenBytes += entry.size
    tally.delivered++
    tally.deliveredBytes += entry.size
    member.client.take(this.#withId(member, entry))
  }

  /** Where it stands. */
  vectorOf(member: Member): Vector {
    if (member.vector !== null) return member.vector
    const vector = this.#host.window.vectorAt(earliest(member))
    const { had } = member
    return had === null ? vector : vector.map((offset, index) => Math.max(offset, had[index] ?? 0))
  }

  cursorOf(member: Member): string | null {
    const { given, parts, cursors } = this.#host
    if (!given.options.resume) return null
    return cursors.sign(parts.body(this.vectorOf(member), this.#timestampOf(member)))
  }

  #timestampOf(member: Member): number {
    const { window, given } = this.#host
    return member.vector === null ? window.timestampAt(earliest(member), given.clock.now()) : member.vectorMs
  }

  /** Lets go of what is too old. */
  trim(): void {
    const { window, given } = this.#host
    const until = window.surplus(given.clock.now())
    if (until === window.first) return
    for (const member of this.#behind)
      if (member.vector === null && earliest(member) < until) {
        member.vectorMs = this.#timestampOf(member)
        member.vector = this.vectorOf(member)
      }
    window.evict(until)
  }

  /** One in a round who does not simply get the batch. What it cost, in client writes. */
  visit(member: Member, batch: SharedBatch): number {
    const { window } = this.#host
    if (member.position === NOWHERE || member.position >= window.next) return 0
    if (member.backlog !== null && member.isLive && member.had === null) return this.#offer(member, batch)
    this.#behind.add(member)
    if (!this.hasRoom(member)) this.#late(member)
    else if (!member.isQueued) return this.serve(member)
    return 1
  }

  /** To one who does not get everything: what it wants, or what waits for it then. */
  #offer(member: Member, batch: SharedBatch): number {
    const { window, tally } = this.#host
    const { wants, client } = member
    const backlog = member.backlog!
    let taken = 0
    member.position = window.next
    for (const item of batch.items) {
      if (member.isGone) return 1
      if (wants !== null && !wants(item)) continue
      if (backlog.size === 0 && member.missed === 0 && this.hasRoom(member)) {
        this.give(member, item)
        taken++
      } else if (backlog.add(item)) tally.dropped++
    }
    if (taken > 0) client.flush()
    if (member.isGone) return 1
    if (backlog.size > 0) {
      this.#overflow(member)
      if (member.position !== NOWHERE) this.#settle(member)
    }
    return 1 + Math.floor(batch.items.length / MESSAGES_A_WRITE)
  }

  /** Keeps a backlog within the bounds of its queue while its client is slow, and in any case within the window. */
  #overflow(member: Member): void {
    const { given, tally, window } = this.#host
    const { queue } = given.options
    const backlog = member.backlog!
    const isOver = this.#isSlow(member)
    while ((isOver || backlog.first < window.first) && fullness(member, window, queue) > 1) {
      if (queue.policy === 'disconnect') return this.end(member, 'slow')
      backlog.shift()
      tally.dropped++
      member.miss(1)
    }
  }

  /** One without room, of whom everything waits in the window. */
  #late(member: Member): void {
    // The window alone bounds a replay.
    if (!member.isLive || member.isPoll || !this.#isSlow(member)) return
    const { given, tally, window } = this.#host
    const { queue } = given.options
    while (fullness(member, window, queue) > 1) {
      if (queue.policy === 'disconnect') return this.end(member, 'slow')
      member.position++
      member.vector = null
      tally.dropped++
      member.miss(1)
    }
  }

  #isSlow(member: Member): boolean {
    const { given, window } = this.#host
    const { queue } = given.options
    const full = fullness(member, window, queue)
    if (full > 1) return isSlow(member, given.clock.now(), queue.policy)
    if (full <= CAUGHT_UP) member.beyondAt = 0
    return false
  }

  /** Ends its connection; it gets nothing more, and still knows where it stood. */
  end(member: Member, why: 'slow' | 'fault'): void {
    if (member.position !== NOWHERE) {
      member.vectorMs = this.#timestampOf(member)
      member.vector = this.vectorOf(member)
    }
    this.detach(member)
    member.backlog?.clear()
    member.client.close(why)
  }

  /** Its turn. What it cost, in client writes. */
  serve(member: Member): number {
    member.isQueued = false
    if (member.isGone) return 0
    if (member.catchUp !== null) {
      if (member.missed !== 0 && this.hasRoom(member)) this.#tellMissed(member, member.catchUp.cursor())
      return 1 + (member.catchUp?.serve() ?? 0)
    }
    if (member.position === NOWHERE || !this.hasRoom(member)) return 1
    const { window } = this.#host
    if (member.position < window.first && (member.backlog === null || !member.isLive) && !this.#jumped(member)) return 1
    if (member.missed !== 0) this.#tellMissed(member, this.cursorOf(member))
    const cost = this.#handOut(member)
    if (member.isGone) return cost
    member.client.flush()
    if (!member.isGone && member.position !== NOWHERE) this.#settle(member)
    return cost
  }

  #tellMissed(member: Member, cursor: string | null): void {
    const { missed } = member
    member.missed = 0
    member.client.gap(missed, cursor ?? '')
  }

  #handOut(member: Member): number {
    const { window, tally } = this.#host
    if (member.had !== null && member.position >= member.hadUntil) member.had = null
    if (member.backlog !== null && member.backlog.size > 0) {
      let count = 0
      for (; count < MOST_AT_ONCE && member.backlog.size > 0 && this.hasRoom(member); count++)
        this.give(member, member.backlog.shift()!)
      return 1 + Math.floor(count / MESSAGES_A_WRITE)
    }
    if (member.position >= window.next) return 1
    if (member.wants === null && member.had === null && !member.isPoll) {
      const batch = window.slice(member.position)
      member.position += batch.items.length
      member.unwritten += batch.items.length
      member.unwrittenBytes += batch.bytes
      tally.delivered += batch.items.length
      tally.deliveredBytes += batch.bytes
      member.client.takeAll(batch)
      return 1
    }
    let seen = 0
    while (seen < MOST_AT_ONCE && member.position < window.next && this.hasRoom(member)) {
      const entry = window.at(member.position++)
      seen++
      const { had } = member
      if (had !== null) {
        if (entry.record.offset < (had[entry.part.index] ?? 0)) continue
        had[entry.part.index] = entry.record.offset + 1
      }
      if (member.wants === null || member.wants(entry)) this.give(member, entry)
    }
    return 1 + Math.floor(seen / MESSAGES_A_WRITE)
  }

  /** Where it stands now decides how it is served from here on. */
  #settle(member: Member): void {
    const { window, parts } = this.#host
    const isAbreast = member.position >= window.next && !waits(member)
    if (isAbreast) {
      if (member.had !== null && (member.position >= member.hadUntil || parts.hasReached(member.had))) member.had = null
      member.isLive ||= member.had === null && !member.isPoll
      member.vector = null
      member.beyondAt = 0
      this.#behind.delete(member)
    } else {
      this.#behind.add(member)
      if (member.beyondAt !== 0) this.#isSlow(member)
      if (this.hasRoom(member)) this.#queue(member)
    }
    member.isPlain =
      member.had === null && member.wants === null && !member.isPoll && member.missed === 0 && !waits(member)
  }

  /** The window has moved past its position. False: it stands there no more. */
  #jumped(member: Member): boolean {
    const { window, given, tally } = this.#host
    if (member.isLive && given.options.queue.policy === 'drop_oldest') {
      const lost = window.first - member.position
      member.position = window.first
      member.vector = null
      tally.dropped += lost
      member.miss(lost)
      return true
    }
    // Who reads is no worse off for a burst longer than the window: it gets the rest from the broker, unless it is slow for good.
    if (member.isLive && isSlowForGood(member, given.clock.now())) {
      this.end(member, 'slow')
      return false
    }
    this.detach(member)
    this.#host.fallen(member)
    return false
  }

  /** The same message, or a copy for this client alone whose cursor is its own. */
  #withId(member: Member, entry: Entry): Item {
    const { parts, window, given } = this.#host
    const { had } = member
    if (entry.seq < 0) return entry
    // It had more of another partition than we had when this message came: our cursor would lead back.
    if (had !== null && entry.cursor !== null) return entry.under(parts.body(had, entry.record.timestamp))
    if (member.wants === null || parts.list.length <= EVERY_EVENT_UP_TO) return entry
    // With many partitions few messages carry an id, and a filter may take just those away.
    if (entry.cursor !== null) member.sinceId = 0
    else if (++member.sinceId >= given.options.idInterval && given.options.resume && entry.seq >= window.first) {
      member.sinceId = 0
      return entry.under(parts.body(had ?? window.vectorAt(entry.seq + 1), entry.record.timestamp))
    }
    return entry
  }
}

function waits({ backlog }: Member): boolean {
  return backlog !== null && backlog.size > 0
}

/** Sequence number of the first that it has not got. */
function earliest({ backlog, position }: Member): number {
  return backlog !== null && backlog.size > 0 ? backlog.first : position
}
