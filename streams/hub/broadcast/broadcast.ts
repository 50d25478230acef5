import { type No, nos } from '../../refusals.ts'
import { bodyOfTime, type Cursors } from '../cursor.ts'
import type { Client, HubGiven, Owner, Seat } from '../hub.ts'
import { Backlog } from './backlog.ts'
import { CatchUp, type CatchUpHost } from './catchUp.ts'
import type { Entry } from './entry.ts'
import { FanOut, type FanOutHost } from './fanOut.ts'
import { Intake, type IntakeListener } from './intake.ts'
import { Member, NOWHERE, type Seats, type Start } from './member.ts'
import { Parts, topicsOf, type Vector } from './parts.ts'
import type { Readers } from './readers.ts'
import type { Tally } from './tally.ts'
import { Window } from './window.ts'

/** Joined bytes of a batch: no single write is much longer than this and one message. */
const BATCH_BYTES = 65_536
const BATCH_MESSAGES = 500
/** Before positions are asked for again. */
const RETRY_MS = 2000
/** Clients that came while positions were not known begin at their own time, to so much, or to a hundredth of the waiting. */
const JOINING_STEP_MS = 100
const JOINING_STEPS = 100
/** The window is looked over for what is too old no oftener than this. */
const SHORTEST_AGE_MS = 1000

/** A broadcast from its first client until some time after its last one: reader, window and members. */
export class Broadcast implements Seats, IntakeListener, FanOutHost, CatchUpHost {
  readonly given: HubGiven
  readonly cursors: Cursors
  readonly tally: Tally
  readonly parts: Parts
  readonly window: Window
  readonly intake: Intake
  readonly #fanOut: FanOut
  readonly #readers: Readers
  readonly #ageMs: number
  readonly #emptied: () => void
  #cancelAge: (() => void) | null = null
  readonly #retries = new Set<() => void>()
  #isClosed = false

  /** @param emptied called when the last client has left */
  constructor(given: HubGiven, cursors: Cursors, tally: Tally, readers: Readers, emptied: () => void) {
    const { queue, window, resume } = given.options
    this.given = given
    this.cursors = cursors
    this.tally = tally
    this.#readers = readers
    this.#emptied = emptied
    this.#ageMs = resume ? window.ageMs : Number.POSITIVE_INFINITY
    const batch = {
      messages: Math.min(BATCH_MESSAGES, Math.ceil(queue.messages / 2)),
      bytes: Math.min(BATCH_BYTES, Math.ceil(queue.bytes / 2))
    }
    // Clients wait as positions in the window: it holds at least what each may be behind.
    const bounds = {
      messages: Math.max(resume ? window.messages : 0, queue.messages),
      bytes: Math.max(resume ? window.bytes : 0, queue.bytes),
      ageMs: this.#ageMs
    }
    this.parts = new Parts(topicsOf(given.sources))
    this.window = new Window(this.parts, bounds, batch, given.budget)
    this.#fanOut = new FanOut(this, batch)
    this.intake = new Intake(given, this.parts, this)
  }

  get count(): number {
    return this.#fanOut.count
  }

  clients(): Client[] {
    return this.#fanOut.all().map(({ client }) => client)
  }

  join(client: Client, start: Start, owner: Owner | null): Seat | No {
    const { given, parts, intake } = this
    const member = new Member(client, start, given.clock.now(), this, owner)
    if (!member.isPoll && (member.wants !== null || given.options.queue.policy === 'latest_by_key'))
      member.backlog = new Backlog(this.window, given.options.queue.policy === 'latest_by_key')
    const readsHistory =
      start.kind === 'time' ||
      (start.kind === 'vector' && intake.isStanding && !parts.covers(parts.vectorOf(start.seen)))
    if (readsHistory && !this.#lineUp(member)) return nos.catchUp
    // It had ids and may have missed something, but goes on from none.
    if (start.kind === 'latest' && start.isLossy) member.miss(-1)
    this.#fanOut.add(member)
    owner?.clients.add(client)
    if (intake.isStanding) this.#locate(member)
    return member
  }

  async close(): Promise<void> {
    this.#isClosed = true
    this.#cancelAge?.()
    for (const cancel of this.#retries) cancel()
    this.#fanOut.close()
    for (const member of this.#fanOut.all()) {
      this.#leaveHistory(member)
      this.#fanOut.remove(member)
    }
    this.window.clear()
    await this.intake.close()
  }

  // IntakeListener

  wantsHistory(): boolean {
    return this.#fanOut.all().some(({ start }) => start.kind === 'vector')
  }

  since(): number {
    let since = Number.POSITIVE_INFINITY
    for (const { start, joined } of this.#fanOut.all()) if (start.kind === 'latest') since = Math.min(since, joined)
    return since
  }

  stands(): void {
    const { given, intake } = this
    const { sinceMs } = intake
    const step = Math.max(JOINING_STEP_MS, Math.ceil((given.clock.now() - sinceMs) / JOINING_STEPS))
    const later = new Map<number, Member[]>()
    for (const member of this.#fanOut.all()) {
      if (member.start.kind !== 'latest') this.#locate(member)
      else if (member.joined <= sinceMs) this.#place(member, [...intake.since])
      else {
        const ms = sinceMs + Math.floor((member.joined - sinceMs) / step) * step
        const others = later.get(ms)
        if (others === undefined) later.set(ms, [member])
        else others.push(member)
      }
    }
    for (const [ms, members] of later) void this.#seek(members, ms)
  }

  arrived(): void {
    this.#fanOut.wake()
    if (this.#cancelAge === null && Number.isFinite(this.#ageMs)) this.#watchAge(this.#ageMs)
  }

  // Seats

  written(member: Member): void {
    this.#fanOut.serving.ready(member)
  }

  ready(member: Member): void {
    this.#fanOut.serving.ready(member)
  }

  leave(member: Member): void {
    this.#leaveHistory(member)
    this.#fanOut.remove(member)
    member.owner?.clients.delete(member.client)
    if (this.count === 0 && !this.#isClosed) this.#emptied()
  }

  cursor(member: Member): string | null {
    const { given, parts, cursors } = this
    if (!given.options.resume) return null
    if (member.catchUp !== null) return member.catchUp.cursor()
    if (member.position !== NOWHERE) return this.#fanOut.serving.cursorOf(member)
    if (member.vector !== null) return cursors.sign(parts.body(member.vector, member.vectorMs))
    const { start } = member
    if (start.kind === 'vector') return start.text
    return cursors.sign(bodyOfTime(start.kind === 'time' ? start.ms : member.joined))
  }

  // CatchUpHost, FanOutHost

  hasRoom(member: Member): boolean {
    return this.#fanOut.serving.hasRoom(member)
  }

  give(member: Member, entry: Entry): void {
    this.#fanOut.serving.give(member, entry)
  }

  queue(member: Member): void {
    this.#fanOut.queue(member)
  }

  meets(member: Member): void {
    const vector = member.vector!
    this.#leaveHistory(member)
    this.#enterWindow(member, vector)
  }

  fallen(member: Member): void {
    this.#place(member, member.vector!)
  }

  moved(member: Member): void {
    member.catchUp?.close()
    member.catchUp = null
    this.#place(member, member.vector!)
  }

  yields(member: Member): void {
    if (!this.#readers.hasLine) return
    const vector = member.vector!
    this.#leaveHistory(member)
    this.#place(member, vector)
  }

  end(member: Member, why: 'fault'): void {
    this.#leaveHistory(member)
    this.#fanOut.serving.end(member, why)
  }

  /** Positions are known: where does it begin? */
  #locate(member: Member): void {
    const { parts, window } = this
    const { start } = member
    if (start.kind === 'vector') this.#place(member, parts.vectorOf(start.seen))
    else if (start.kind === 'time') void this.#seek([member], start.ms)
    else if (parts.hasReached(parts.begins())) this.#fanOut.serving.attach(member, window.next)
    else
      this.#place(
        member,
        parts.list.map(({ begin, next }) => Math.max(begin, next))
      )
  }

  #place(member: Member, vector: Vector): void {
    member.vector = vector
    if (this.parts.covers(vector)) {
      this.#leaveHistory(member)
      this.#enterWindow(member, vector)
    } else if (member.hasReader || this.#readers.take()) {
      member.hasReader = true
      member.catchUp = new CatchUp(this, member)
    } else this.#wait(member)
  }

  /** It will read history: now, or when it is its turn. False: it has to come again. */
  #lineUp(member: Member): boolean {
    member.hasReader = this.#readers.take()
    if (member.hasReader) return true
    // A poll ends before its turn may come, and would begin at the end of the line each time.
    if (member.isPoll || this.#readers.isCrowded) return false
    this.#wait(member)
    return true
  }

  #wait(member: Member): void {
    if (member.turn !== null) return
    member.turn = () => {
      member.turn = null
      member.hasReader = true
      if (member.vector !== null) this.#place(member, member.vector)
    }
    this.#readers.wait(member.turn)
  }

  #enterWindow(member: Member, vector: Vector): void {
    const { parts, window } = this
    const { from, until } = window.seek(vector)
    const hasReached = parts.hasReached(vector)
    member.vector = null
    member.had = hasReached && until <= from ? null : vector
    member.hadUntil = hasReached ? until : Number.POSITIVE_INFINITY
    member.isLive = false
    this.#fanOut.serving.attach(member, from)
    if (!hasReached) void this.#checkEnd(member, vector)
  }

  #leaveHistory(member: Member): void {
    member.catchUp?.close()
    member.catchUp = null
    if (member.turn !== null) this.#readers.leaveLine(member.turn)
    member.turn = null
    if (!member.hasReader) return
    member.hasReader = false
    this.#readers.give()
  }

  async #seek(members: readonly Member[], ms: number): Promise<void> {
    const { given, parts } = this
    const vector: Vector = []
    try {
      for (const { source, topic } of parts.topics) {
        const { broker } = given.sources[source]!
        // The ends first: what is written while we ask is behind them, or has its place by its time.
        const spans = await broker.spans(topic)
        const ends = new Map(spans.map(({ partition, high }) => [partition, high]))
        const positions =
          ms === 0
            ? spans.map(({ partition, low }) => ({ topic, partition, offset: low }))
            : await broker.positionsAt(topic, ms)
        for (const position of positions) {
          const part = parts.get(source, position)
          if (part === null) continue
          vector[part.index] = Math.min(position.offset, ends.get(position.partition) ?? position.offset)
        }
      }
      for (const member of members) if (!member.isGone) this.#place(member, [...vector])
    } catch (error) {
      this.tally.fault = error instanceof Error ? error.message : String(error)
      this.#retry(() => {
        const left = members.filter(({ isGone }) => !isGone)
        if (left.length > 0) void this.#seek(left, ms)
      })
    }
  }

  /**
   * Its cursor is beyond what we have read: another gateway may be ahead of us, or the topic was made anew with smaller offsets. In the
   * second case nobody knows what was lost, and it would wait for long.
   */
  async #checkEnd(member: Member, vector: Vector): Promise<void> {
    const { given, parts } = this
    const beyond = parts.list.filter(part => (vector[part.index] ?? 0) > part.next)
    let isLost = false
    try {
      for (const { source, topic } of beyond)
        for (const span of await given.sources[source]!.broker.spans(topic)) {
          const part = parts.get(source, span)
          if (part === null || member.isGone || member.had !== vector || (vector[part.index] ?? 0) <= span.high)
            continue
          vector[part.index] = span.low
          isLost = true
        }
      if (!isLost || member.isGone) return
      // What the new history holds by now is for it too.
      this.#fanOut.serving.detach(member)
      member.had = null
      member.miss(-1)
      this.#place(member, vector)
      this.#fanOut.queue(member)
    } catch (error) {
      this.tally.fault = error instanceof Error ? error.message : String(error)
      this.#retry(() => {
        if (!member.isGone && member.had === vector) void this.#checkEnd(member, vector)
      })
    }
  }

  #retry(run: () => void): void {
    if (this.#isClosed) return
    const cancel = this.given.clock.after(RETRY_MS, () => {
      this.#retries.delete(cancel)
      run()
    })
    this.#retries.add(cancel)
  }

  #watchAge(ms: number): void {
    const { clock } = this.given
    this.#cancelAge = clock.after(Math.max(SHORTEST_AGE_MS, ms), () => {
      this.#cancelAge = null
      this.#fanOut.serving.trim()
      const oldest = this.window.oldest()
      if (oldest !== null) this.#watchAge(oldest + this.#ageMs - clock.now())
    })
  }
}
