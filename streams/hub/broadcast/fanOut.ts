import type { Cursors } from '../cursor.ts'
import { Fifo } from '../fifo.ts'
import type { HubGiven, Item } from '../hub.ts'
import { Entry, EVERY_EVENT_UP_TO, Pace, SharedBatch } from './entry.ts'
import type { Intake } from './intake.ts'
import { type Member, NOWHERE } from './member.ts'
import type { Part, Parts, Vector } from './parts.ts'
import type { Tally } from './tally.ts'
import type { Window } from './window.ts'

/** Client writes in one turn of the event loop, so that other traffic keeps its latency (facts/streams R22). */
const WRITES_A_TURN = 500
/** Messages that one client takes, or a filter looks at, in one go. */
const MOST_AT_ONCE = 500
/** So many messages cost about as much as one client write: to process, to filter, to put into a frame. */
const MESSAGES_A_WRITE = 8

/** What everybody is given at the moment. */
interface Round {
  readonly batch: SharedBatch
  readonly start: number
  readonly end: number
}

export interface FanOutHost {
  readonly given: HubGiven
  readonly parts: Parts
  readonly window: Window
  readonly cursors: Cursors
  readonly tally: Tally
  readonly intake: Intake
  /** The window has moved past it; `member.vector` says where it stood. */
  fallen(member: Member): void
}

/**
 * Hands messages out, in rounds: what has come goes to all who are abreast as one shared batch. Who has no room stays behind as a
 * position in the window (or with a backlog of its own, where it does not get everything) and is served in turn once it has.
 */
export class FanOut {
  readonly #host: FanOutHost
  readonly #batchMessages: number
  readonly #batchBytes: number
  readonly #pace: Pace
  /** Null: it left during a round. */
  readonly #members: (Member | null)[] = []
  /** Those who are not abreast of the window. */
  readonly #behind = new Set<Member>()
  readonly #turns = new Fifo<Member>()
  /** Turns before the next round. */
  #due = 0
  #round: Round | null = null
  /** Next of the members in this round. */
  #at = 0
  #turn: NodeJS.Immediate | null = null
  #isClosed = false
  count = 0

  constructor(host: FanOutHost, batch: { readonly messages: number; readonly bytes: number }) {
    this.#host = host
    this.#batchMessages = batch.messages
    this.#batchBytes = batch.bytes
    this.#pace = new Pace(host.given.options.idInterval)
  }

  all(): Member[] {
    return this.#members.filter(member => member !== null)
  }

  add(member: Member): void {
    member.index = this.#members.length
    this.#members.push(member)
    this.count++
  }

  remove(member: Member): void {
    member.isGone = true
    this.detach(member)
    member.backlog?.clear()
    this.#members[member.index] = null
    this.count--
    if (this.#round === null) this.#fill(member.index)
  }

  /** It stands in the window from here on. */
  attach(member: Member, position: number): void {
    member.position = position
    this.#settle(member)
    this.queue(member)
  }

  detach(member: Member): void {
    member.position = NOWHERE
    member.isPlain = false
    this.#behind.delete(member)
  }

  /** It is to be served: it may have room, or something to be told. */
  queue(member: Member): void {
    if (member.isQueued || member.isGone) return
    member.isQueued = true
    this.#turns.push(member)
    this.wake()
  }

  /** Something may have changed for it. */
  ready(member: Member): void {
    if (member.catchUp !== null || this.#behind.has(member) || member.missed !== 0) this.queue(member)
  }

  wake(): void {
    if (!this.#isClosed) this.#turn ??= setImmediate(this.#run)
  }

  close(): void {
    this.#isClosed = true
    if (this.#turn !== null) clearImmediate(this.#turn)
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

  readonly #run = (): void => {
    this.#turn = null
    let left = WRITES_A_TURN
    while (left > 0) {
      if (this.#round !== null) left -= this.#goOn(this.#round, left)
      else if (this.#due > 0 && this.#turns.length > 0) {
        this.#due--
        left -= this.#serve(this.#turns.shift()!)
      } else {
        const cost = this.#begin()
        if (cost === 0 && this.#turns.length === 0) return
        this.#due = this.#turns.length
        left -= cost
      }
    }
    this.wake()
  }

  /** Takes from the intake what becomes the next round. What it cost, in client writes; 0: nothing has come. */
  #begin(): number {
    const { intake, window, given, parts } = this.#host
    const now = given.clock.now()
    const start = window.next
    const items: Entry[] = []
    let bytes = 0
    let seen = 0
    while (seen < this.#batchMessages && bytes < this.#batchBytes) {
      // History that is gone is told between two rounds.
      if (intake.isAtLoss && items.length > 0) break
      if (!intake.next()) break
      seen++
      const part = intake.part!
      const { record } = intake
      if (record === null) {
        this.#lost(part, intake.lostTo)
        break
      }
      part.next = record.offset + 1
      const arrived = this.#host.tally.processed(record)
      if (arrived === null) continue
      const hasId = given.options.resume && this.#pace.isDue(parts.list.length, now)
      const body = hasId ? parts.body(null, arrived.timestamp) : null
      const entry = new Entry(arrived, window.next, part, this.#host.cursors, body)
      window.push(entry, now)
      items.push(entry)
      bytes += entry.size
    }
    if (items.length > 0) {
      this.#round = { batch: new SharedBatch(items, true), start, end: window.next }
      this.#at = 0
    }
    return seen === 0 ? 0 : 1 + Math.floor(seen / MESSAGES_A_WRITE)
  }

  /** Goes on with a round for at most so many writes; how many it took. */
  #goOn({ batch, start, end }: Round, most: number): number {
    const members = this.#members
    const { messages, bytes } = this.#host.given.options.queue
    const { length } = batch.items
    let cost = 0
    let given = 0
    while (cost < most && this.#at < members.length) {
      const member = members[this.#at++]!
      if (member === null) continue
      const { client } = member
      if (
        member.isPlain &&
        member.position === start &&
        member.unwritten < messages &&
        member.unwrittenBytes < bytes &&
        client.hasRoom()
      ) {
        // Before the client gets it: it may tell at once that it is written, or leave.
        member.position = end
        member.unwritten += length
        member.unwrittenBytes += batch.bytes
        client.takeAll(batch)
        client.flush()
        cost++
        given++
      } else cost += this.#visit(member, batch)
    }
    const { tally } = this.#host
    tally.delivered += given * length
    tally.deliveredBytes += given * batch.bytes
    if (this.#at >= members.length) this.#finish()
    return cost
  }

  #finish(): void {
    this.#round = null
    for (let i = this.#members.length - 1; i >= 0 && this.count < this.#members.length; i--)
      if (this.#members[i] === null) this.#fill(i)
    this.trim()
    this.#due = this.#turns.length
  }

  /** Puts the last one where one has left. */
  #fill(index: number): void {
    const last = this.#members.pop()!
    if (index === this.#members.length) return
    this.#members[index] = last
    if (last !== null) last.index = index
  }

  /** One in a round who does not simply get the batch. What it cost, in client writes. */
  #visit(member: Member, batch: SharedBatch): number {
    const { window } = this.#host
    if (member.position === NOWHERE || member.position >= window.next) return 0
    if (member.backlog !== null && member.isLive && member.had === null) return this.#offer(member, batch)
    this.#behind.add(member)
    if (!this.hasRoom(member)) this.#late(member)
    else if (!member.isQueued) return this.#serve(member)
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

  /** Keeps a backlog within the bounds of its queue. */
  #overflow(member: Member): void {
    const { given, tally } = this.#host
    const { messages, bytes, policy } = given.options.queue
    const backlog = member.backlog!
    while (
      backlog.size > 0 &&
      (backlog.size + member.unwritten > messages || backlog.bytes + member.unwrittenBytes > bytes)
    ) {
      if (policy === 'disconnect') return this.end(member, 'slow')
      backlog.shift()
      tally.dropped++
      member.miss(1)
    }
  }

  /** One without room, of whom everything waits in the window. */
  #late(member: Member): void {
    // The window alone bounds a replay.
    if (!member.isLive || member.isPoll) return
    const { given, window, tally } = this.#host
    const { messages, bytes, policy } = given.options.queue
    while (
      member.position < window.next &&
      (window.next - member.position + member.unwritten > messages ||
        window.bytesFrom(member.position) + member.unwrittenBytes > bytes)
    ) {
      if (policy === 'disconnect') return this.end(member, 'slow')
      member.position++
      member.vector = null
      tally.dropped++
      member.miss(1)
    }
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
  #serve(member: Member): number {
    member.isQueued = false
    if (member.isGone) return 0
    if (member.catchUp !== null) return 1 + member.catchUp.serve()
    if (member.position === NOWHERE || !this.hasRoom(member)) return 1
    const { window } = this.#host
    if (member.position < window.first && (member.backlog === null || !member.isLive) && !this.#jumped(member)) return 1
    if (member.missed !== 0) {
      const { missed } = member
      member.missed = 0
      member.client.gap(missed, this.cursorOf(member) ?? '')
    }
    const cost = this.#handOut(member)
    if (member.isGone) return cost
    member.client.flush()
    if (!member.isGone && member.position !== NOWHERE) this.#settle(member)
    return cost
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
      this.#behind.delete(member)
    } else {
      this.#behind.add(member)
      if (this.hasRoom(member)) this.queue(member)
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
    this.detach(member)
    this.#host.fallen(member)
    return false
  }

  /** History that the broker no longer has. */
  #lost(part: Part, to: number): void {
    const from = part.next
    part.next = to
    // Who comes with an older cursor is to hear of it too: from the broker.
    part.floor = Math.max(part.floor, to)
    for (const member of this.#members) {
      if (member === null || member.position === NOWHERE) continue
      if (member.had !== null && (member.had[part.index] ?? 0) >= to) continue
      member.miss(to - from)
      this.queue(member)
    }
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
