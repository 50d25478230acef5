import { Fifo } from '../fifo.ts'
import { Entry, Pace, SharedBatch } from './entry.ts'
import type { Intake } from './intake.ts'
import { type Member, NOWHERE } from './member.ts'
import type { Part } from './parts.ts'
import { MESSAGES_A_WRITE, Serving, type ServingHost } from './serving.ts'

/**
 * Client writes in one turn of the event loop, so that other traffic keeps its latency (facts/streams R22). With 500, requests beside a
 * full fan-out to 1,000 clients had a p99 14 to 22 ms above their own; `npm run bench -- stream-beside`.
 */
const WRITES_A_TURN = 100
/** So long a round waits for a majority that has no room and reads. */
const PATIENCE_MS = 50

/** What everybody is given at the moment. */
interface Round {
  readonly batch: SharedBatch
  readonly start: number
  readonly end: number
}

export interface FanOutHost extends ServingHost {
  readonly intake: Intake
  /** What it stood on is no more: it goes on from `member.vector`. */
  moved(member: Member): void
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
  readonly #turns = new Fifo<Member>()
  /** Turns before the next round. */
  #due = 0
  #round: Round | null = null
  /** Next of the members in this round. */
  #at = 0
  #turn: NodeJS.Immediate | null = null
  #isClosed = false
  /** Live members whom this round found without room, and who read. */
  readonly #stuck: Member[] = []
  /** And those who do not. */
  #still = 0
  /** So many of them end the waiting for a majority. */
  #awaited = 0
  #cancelWait: (() => void) | null = null
  readonly serving: Serving
  /** Members. */
  count = 0

  constructor(host: FanOutHost, batch: { readonly messages: number; readonly bytes: number }) {
    this.#host = host
    this.#batchMessages = batch.messages
    this.#batchBytes = batch.bytes
    this.#pace = new Pace(host.given.options.idInterval)
    this.serving = new Serving(host, member => this.queue(member))
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
    this.serving.detach(member)
    member.backlog?.clear()
    this.#members[member.index] = null
    this.count--
    if (this.#round === null) this.#fill(member.index)
  }

  /** It is to be served: it may have room, or something to be told. */
  queue(member: Member): void {
    if (member.isQueued || member.isGone) return
    member.isQueued = true
    this.#turns.push(member)
    this.wake()
  }

  wake(): void {
    if (!this.#isClosed) this.#turn ??= setImmediate(this.#run)
  }

  close(): void {
    this.#isClosed = true
    this.#cancelWait?.()
    if (this.#turn !== null) clearImmediate(this.#turn)
  }

  readonly #run = (): void => {
    this.#turn = null
    let left = WRITES_A_TURN
    let hasBegun = false
    while (left > 0) {
      if (this.#round !== null) left -= this.#goOn(this.#round, left)
      else if (this.#due > 0 && this.#turns.length > 0) left -= this.#serveNext()
      else if (hasBegun) break
      else {
        // One a turn: sockets tell between turns what they have written.
        hasBegun = true
        const cost = this.#cancelWait === null ? this.#begin() : 0
        if (cost === 0 && this.#turns.length === 0) return
        this.#due = this.#turns.length
        left -= cost
      }
    }
    this.wake()
  }

  #serveNext(): number {
    const member = this.#turns.shift()!
    this.#due--
    const cost = this.serving.serve(member)
    if (this.#cancelWait !== null && !this.serving.isBehind(member) && --this.#awaited <= 0) this.#endWait()
    return cost
  }

  /**
   * A burst is faster than any socket: when most clients have no room, the next round waits a moment for them, or all would be
   * behind at once. It waits for no minority (facts/streams R20), and for nobody of whom nothing was written since it waited last:
   * five stopped clients beside one that reads cost that one 2.5 s in 3.6 MB.
   */
  #wait(): void {
    const { length } = this.#stuck
    if (length * 2 <= this.count - this.#still || this.#isClosed) return
    for (const member of this.#stuck) member.waitedAt = member.writes
    this.#awaited = Math.ceil(length / 2)
    this.#cancelWait = this.#host.given.clock.after(PATIENCE_MS, () => this.#endWait())
  }

  #endWait(): void {
    this.#cancelWait?.()
    this.#cancelWait = null
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
        if (intake.isAnew) this.#anew(part, intake.lostTo)
        else this.#lost(part, intake.lostTo)
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
      this.#stuck.length = 0
      this.#still = 0
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
      } else {
        cost += this.serving.visit(member, batch)
        if (!this.serving.isBehind(member)) continue
        if (member.writes === member.waitedAt) this.#still++
        else this.#stuck.push(member)
      }
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
    this.serving.trim()
    this.#due = this.#turns.length
    this.#wait()
    this.#stuck.length = 0
  }

  /** Puts the last one where one has left. */
  #fill(index: number): void {
    const last = this.#members.pop()!
    if (index === this.#members.length) return
    this.#members[index] = last
    if (last !== null) last.index = index
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

  /**
   * Another history of a partition, whose offsets say nothing about those of the old one. The window gives way as a whole; what somebody still
   * waits for of other partitions comes from the broker.
   */
  #anew(part: Part, to: number): void {
    const moved: Member[] = []
    for (const member of this.#members) {
      if (member === null || (member.position === NOWHERE && member.vector === null)) continue
      const vector = member.position === NOWHERE ? [...member.vector!] : [...this.serving.vectorOf(member)]
      vector[part.index] = to
      this.serving.detach(member)
      member.backlog?.clear()
      member.vector = vector
      member.had = null
      member.miss(-1)
      moved.push(member)
    }
    this.#host.window.empty()
    part.begin = to
    part.next = to
    part.high = to
    part.floor = to
    for (const member of moved) {
      // One that waited may have had its turn by what another one left.
      if (!member.isGone && member.position === NOWHERE && member.vector !== null) this.#host.moved(member)
      this.queue(member)
    }
  }
}
