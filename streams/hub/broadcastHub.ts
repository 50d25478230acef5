import { type No, nos } from '../refusals.ts'
import { Broadcast } from './broadcast/broadcast.ts'
import type { Start } from './broadcast/member.ts'
import { topicsOf } from './broadcast/parts.ts'
import { type Readers, readersOf } from './broadcast/readers.ts'
import { Tally } from './broadcast/tally.ts'
import { Cursors } from './cursor.ts'
import type { Client, Ending, From, HubGiven, HubStatus, Owner, Seat, SharedHub } from './hub.ts'
import { Farewell } from './spread.ts'

/** The hub of mode `broadcast`: every client gets every message, from one reader a process (facts/streams R3, §4.3). */
export function broadcastHub(given: HubGiven): SharedHub {
  return new BroadcastHub(given)
}

class BroadcastHub implements SharedHub {
  readonly #given: HubGiven
  readonly #cursors: Cursors
  readonly #readers: Readers
  readonly #tally: Tally
  readonly #keepMs: number
  #broadcast: Broadcast | null = null
  #cancelKeep: (() => void) | null = null
  readonly #farewell: Farewell
  /** Some may be leaving before `#closing` is known. */
  #isClosing = false
  #closing: Promise<void> | null = null

  constructor(given: HubGiven) {
    const { sources, options, secret, settings, budget, api, stream } = given
    const topics = topicsOf(sources)
    this.#given = given
    this.#farewell = new Farewell(given.clock)
    this.#tally = new Tally(given)
    this.#cursors = new Cursors(
      secret,
      [api, stream, ...topics.map(({ topic }) => topic)],
      topics.length,
      options.allowSeek
    )
    this.#readers = readersOf(budget, settings.catch_up_readers)
    // A lone client that comes again is to find what it missed in the window.
    this.#keepMs = Math.max(settings.idle_leave * 1000, options.resume ? options.window.ageMs : 0)
  }

  join(client: Client, from: From | null, owner: Owner | null = null): Seat | No {
    if (this.#isClosing) return nos.draining
    if (this.#given.budget.isFull) return nos.budget
    const start = this.#start(from, client.transport)
    if (start === null) return nos.badCursor
    this.#cancelKeep?.()
    this.#cancelKeep = null
    this.#broadcast ??= new Broadcast(this.#given, this.#cursors, this.#tally, this.#readers, () => this.#keep())
    const seat = this.#broadcast.join(client, start, owner)
    if (this.#broadcast.count === 0) this.#keep()
    return seat
  }

  trouble(): string | null {
    const down = this.#given.sources.map(({ broker }) => broker.state()).find(({ isUp }) => !isUp)
    return this.#fault() ?? (down === undefined ? null : (down.fault ?? 'the broker is away'))
  }

  status(): HubStatus {
    const broadcast = this.#broadcast
    const clients = { sse: 0, websocket: 0, poll: 0 }
    for (const { transport } of broadcast?.clients() ?? []) clients[transport]++
    const parts = broadcast?.parts.list ?? []
    let lag = broadcast?.intake.isStanding ? 0 : -1
    let paused = 0
    for (const part of parts) {
      lag += Math.max(0, part.high - part.next)
      if (part.isPaused) paused++
    }
    const { delivered, deliveredBytes, dropped, fault } = this.#tally
    return {
      state: this.#state(),
      clients,
      delivered,
      deliveredBytes,
      queued: broadcast?.intake.waiting ?? 0,
      redelivered: 0,
      dropped,
      deadLettered: 0,
      lag,
      partitions: parts.length,
      paused,
      lastError: this.#fault() ?? fault
    }
  }

  close(why: Ending, spreadMs: number): Promise<void> {
    this.#isClosing = true
    this.#cancelKeep?.()
    this.#cancelKeep = null
    // They get what comes until it is their turn to leave.
    const told = this.#farewell.say(this.#broadcast?.clients() ?? [], why, spreadMs)
    this.#closing = Promise.all([this.#closing, told]).then(() => this.#end())
    return this.#closing
  }

  async #end(): Promise<void> {
    const broadcast = this.#broadcast
    this.#broadcast = null
    await broadcast?.close()
  }

  #state(): HubStatus['state'] {
    if (this.#isClosing) return 'closing'
    if (this.#broadcast === null) return 'idle'
    if (this.#fault() !== null) return 'degraded'
    return this.#broadcast.intake.isStanding ? 'active' : 'joining'
  }

  #fault(): string | null {
    return this.#broadcast?.intake.fault ?? null
  }

  /** Null: a cursor that is none. */
  #start(from: From | null, transport: Client['transport']): Start | null {
    const { options, clock } = this.#given
    if (from === null) from = options.start === 'earliest' ? 'earliest' : 'latest'
    if (from === 'latest') return LATEST
    if (from === 'earliest') return { kind: 'time', ms: 0 }
    if ('timestamp' in from) return { kind: 'time', ms: Math.max(1, Math.min(from.timestamp, clock.now())) }
    if (!options.resume) return LOST
    const seen = this.#cursors.read(from.cursor)
    // An event source that is answered 400 never comes again, and it cannot let go of the id that it has.
    if (seen === null) return transport === 'poll' ? null : LOST
    if (seen.timestamp !== null) return { kind: 'time', ms: seen.timestamp }
    return { kind: 'vector', seen, text: from.cursor }
  }

  /** The last client has left: the window stays a while for those who come again. */
  #keep(): void {
    if (this.#isClosing) return
    this.#cancelKeep?.()
    this.#cancelKeep = this.#given.clock.after(this.#keepMs, () => {
      this.#cancelKeep = null
      const broadcast = this.#broadcast
      this.#broadcast = null
      broadcast?.close().catch(error => this.#given.log.warn('broadcast reader', { error: String(error) }))
    })
  }
}

const LATEST: Start = { kind: 'latest', isLossy: false }
/** It has missed nobody knows what. */
const LOST: Start = { kind: 'latest', isLossy: true }
