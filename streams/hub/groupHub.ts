import type { Fields } from '../../config/world.ts'
import type { Place } from '../broker.ts'
import { type No, nos } from '../refusals.ts'
import { Dispatch, type DispatchHost } from './dispatch.ts'
import { GroupSeat } from './groupSeat.ts'
import { GroupSource, type SourceHost } from './groupSource.ts'
import type { Client, Ending, Hub, HubGiven, HubStatus, Seat } from './hub.ts'
import type { Entry, PartitionQueue } from './partitionQueue.ts'
import { seldom } from './seldom.ts'
import { spread } from './spread.ts'
import { within } from './within.ts'

/** Longest wait for what clients have in hand, when the hub closes (streams R23). */
const FLUSH_MS = 2000

/** Modes `group` and `key`: each message to one client, each source read as a member of its group while clients are there. */
export function groupHub(given: HubGiven): Hub {
  return new GroupHub(given)
}

class GroupHub implements Hub, SourceHost, DispatchHost {
  readonly #given: HubGiven
  readonly #fields: Fields
  readonly #sources: readonly GroupSource[]
  readonly #dispatch: Dispatch
  readonly #clients = { sse: 0, websocket: 0, poll: 0 }
  readonly #givenUp: (why: string, more?: Fields) => void
  readonly #troubled: (why: string) => void
  #seq = 0
  #seats = 0
  #logged: HubStatus['state'] = 'idle'
  #lastError: string | null = null
  #cancelIdle: (() => void) | null = null
  #isClosing = false
  #closing: Promise<void> | null = null
  /** Called when clients have nothing in hand any more. */
  #settled: (() => void) | null = null

  constructor(given: HubGiven) {
    const { api, stream, log, clock, sources } = given
    this.#given = given
    this.#fields = { api_id: api, stream }
    this.#givenUp = seldom(log, clock, 'stream message given up', this.#fields)
    this.#troubled = seldom(log, clock, 'stream trouble', this.#fields)
    this.#dispatch = new Dispatch(given, this)
    const topics = sources.flatMap(({ joining }) => joining.topics)
    this.#sources = sources.map(source => new GroupSource(source, topics, given, this))
  }

  join(client: Client): Seat | No {
    const { options, budget } = this.#given
    const { seats } = this.#dispatch
    if (this.#isClosing) return nos.draining
    if (seats.size >= options.maxClients) return nos.tooManyClients
    if (budget.isFull) return nos.budget
    if (options.requireBroker && this.#sources.some(({ trouble }) => trouble !== null)) return nos.unavailable
    const seat = new GroupSeat(client, this.#seats++, this.#dispatch)
    this.#clients[client.transport]++
    this.#dispatch.add(seat)
    if (seats.size === 1) {
      this.#cancelIdle?.()
      this.#cancelIdle = null
      for (const source of this.#sources) source.enter()
    }
    return seat
  }

  status(): HubStatus {
    const queues = this.#queues()
    for (const source of this.#sources) source.learnHighs()
    const isKnown = this.#sources.every(({ isAssigned }) => isAssigned) && queues.every(({ high }) => high >= 0)
    return {
      state: this.#state(),
      clients: { ...this.#clients },
      ...this.#dispatch.counts,
      queued: sum(queues, ({ waiting }) => waiting),
      lag: isKnown ? sum(queues, ({ high, low }) => Math.max(0, high - low)) : -1,
      partitions: queues.length,
      paused: sum(queues, ({ isPaused }) => (isPaused ? 1 : 0)),
      lastError: this.#lastError
    }
  }

  close(why: Ending, spreadMs: number): Promise<void> {
    const { clock } = this.#given
    const clients = [...this.#dispatch.seats].map(({ client }) => client)
    if (this.#closing === null) {
      this.#cancelIdle?.()
      this.#cancelIdle = null
      this.#dispatch.stop()
      this.#isClosing = true
      this.#closing = this.#leave()
      for (const source of this.#sources) source.paceAll()
      this.changed()
    }
    return Promise.all([spread(clients, why, spreadMs, clock), this.#closing]).then(() => {})
  }

  get isStill(): boolean {
    return this.#isClosing || this.#dispatch.seats.size === 0
  }

  nextSeq(): number {
    return this.#seq++
  }

  arrived(queue: PartitionQueue): void {
    this.#dispatch.arrived(queue)
  }

  lost(queue: PartitionQueue): void {
    this.#dispatch.lost(queue)
    this.moved()
  }

  halted(queue: PartitionQueue): void {
    this.#dispatch.halted(queue)
  }

  moved(): void {
    if (this.#settled !== null && this.#held() === 0) this.#settled()
  }

  sliced(): void {
    for (const source of this.#sources) source.resumeAll()
  }

  changed(): void {
    const state = this.#state()
    const fault = this.#sources.find(source => source.fault !== null)?.fault ?? null
    if (fault !== null) this.#lastError = fault
    if (state === this.#logged) return
    this.#logged = state
    const fields = { ...this.#fields, state, partitions: this.#queues().length }
    if (state === 'degraded') this.#given.log.warn('stream state', { ...fields, reason: fault })
    else this.#given.log.info('stream state', fields)
  }

  gap({ topic, partition }: Place, missing: number): void {
    this.#dispatch.counts.dropped += missing
    this.#lastError = `${missing} messages of ${topic}/${partition} are gone`
    this.#given.log.warn('stream gap', { ...this.#fields, topic, partition, missing })
  }

  failed(why: string): void {
    this.#lastError = why
    this.#troubled(why)
  }

  givenUp({ record }: Entry, why: string): void {
    const { topic, partition, offset } = record
    this.#lastError = why
    this.#givenUp(why, { topic, partition, offset })
  }

  gone({ client }: GroupSeat): void {
    const { clock, settings } = this.#given
    this.#clients[client.transport]--
    this.moved()
    if (this.#dispatch.seats.size > 0 || this.#isClosing) return
    for (const source of this.#sources) {
      source.paceAll()
      void source.commit()
    }
    this.#cancelIdle = clock.after(settings.idle_leave * 1000, () => {
      this.#cancelIdle = null
      for (const source of this.#sources) void source.exit()
    })
  }

  async #leave(): Promise<void> {
    const settled = new Promise<void>(resolve => {
      this.#settled = resolve
    })
    this.moved()
    await within(settled, FLUSH_MS, this.#given.clock)
    this.#settled = null
    await Promise.all(this.#sources.map(source => source.exit()))
  }

  #state(): HubStatus['state'] {
    if (this.#isClosing) return 'closing'
    if (this.#sources.some(({ fault }) => fault !== null)) return 'degraded'
    if (!this.#sources.some(({ isMember }) => isMember)) return 'idle'
    return this.#sources.every(({ isAssigned }) => isAssigned) ? 'active' : 'joining'
  }

  #queues(): PartitionQueue[] {
    return this.#sources.flatMap(({ queues }) => [...queues.values()])
  }

  #held(): number {
    return sum(this.#queues(), ({ held }) => held)
  }
}

function sum(queues: readonly PartitionQueue[], of: (queue: PartitionQueue) => number): number {
  let total = 0
  for (const queue of queues) total += of(queue)
  return total
}
