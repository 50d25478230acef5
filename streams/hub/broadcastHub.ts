import { type No, nos } from '../refusals.ts'
import { Broadcast } from './broadcast/broadcast.ts'
import type { Start } from './broadcast/member.ts'
import { topicsOf } from './broadcast/parts.ts'
import { type Readers, readersOf } from './broadcast/readers.ts'
import { Tally } from './broadcast/tally.ts'
import { Cursors } from './cursor.ts'
import type { Client, Ending, From, Hub, HubGiven, HubStatus, Seat } from './hub.ts'
import { spread } from './spread.ts'

/** The hub of mode `broadcast`: every client gets every message, from one reader a process (facts/streams R3, §4.3). */
export function broadcastHub(given: HubGiven): Hub {
  return new BroadcastHub(given)
}

class BroadcastHub implements Hub {
  readonly #given: HubGiven
  readonly #cursors: Cursors
  readonly #readers: Readers
  readonly #tally: Tally
  readonly #keepMs: number
  #broadcast: Broadcast | null = null
  #cancelKeep: (() => void) | null = null
  #closing: Promise<void> | null = null

  constructor(given: HubGiven) {
    const { sources, options, secret, settings, budget, api, stream } = given
    const topics = topicsOf(sources)
    this.#given = given
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

  join(client: Client, from: From | null): Seat | No {
    const { options, budget, sources } = this.#given
    if (this.#closing !== null) return nos.draining
    if ((this.#broadcast?.count ?? 0) >= options.maxClients) return nos.tooManyClients
    if (budget.isFull) return nos.budget
    const isFaulty = this.#fault() !== null || sources.some(({ broker }) => !broker.state().isUp)
    if (options.requireBroker && isFaulty) return nos.unavailable
    const start = this.#start(from)
    if (start === null) return nos.badCursor
    this.#cancelKeep?.()
    this.#cancelKeep = null
    this.#broadcast ??= new Broadcast(this.#given, this.#cursors, this.#tally, this.#readers, () => this.#keep())
    const seat = this.#broadcast.join(client, start)
    if (this.#broadcast.count === 0) this.#keep()
    return seat
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
    this.#closing ??= this.#close(why, spreadMs)
    return this.#closing
  }

  async #close(why: Ending, spreadMs: number): Promise<void> {
    this.#cancelKeep?.()
    const broadcast = this.#broadcast
    if (broadcast === null) return
    // They get what comes until it is their turn to leave.
    await spread(broadcast.clients(), why, spreadMs, this.#given.clock)
    this.#broadcast = null
    await broadcast.close()
  }

  #state(): HubStatus['state'] {
    if (this.#closing !== null) return 'closing'
    if (this.#broadcast === null) return 'idle'
    if (this.#fault() !== null) return 'degraded'
    return this.#broadcast.intake.isStanding ? 'active' : 'joining'
  }

  #fault(): string | null {
    return this.#broadcast?.intake.fault ?? null
  }

  /** Null: a cursor that is none. */
  #start(from: From | null): Start | null {
    const { options, clock } = this.#given
    if (from === null) from = options.start === 'earliest' ? 'earliest' : 'latest'
    if (from === 'latest') return LATEST
    if (from === 'earliest') return { kind: 'time', ms: 0 }
    if ('timestamp' in from) return { kind: 'time', ms: Math.max(1, Math.min(from.timestamp, clock.now())) }
    if (!options.resume) return { kind: 'latest', isLossy: true }
    const seen = this.#cursors.read(from.cursor)
    if (seen === null) return null
    if (seen.timestamp !== null) return { kind: 'time', ms: seen.timestamp }
    return { kind: 'vector', seen, text: from.cursor }
  }

  /** The last client has left: the window stays a while for those who come again. */
  #keep(): void {
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
