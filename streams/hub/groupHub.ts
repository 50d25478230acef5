import type { Fields } from '../../config/world.ts'
import type { Place } from '../broker.ts'
import { type No, nos } from '../refusals.ts'
import { seldom } from '../seldom.ts'
import { within } from '../within.ts'
import { Dispatch, type DispatchHost } from './dispatch.ts'
import { GroupSeat } from './groupSeat.ts'
import { GroupSource, type SourceHost } from './groupSource.ts'
import type { Client, Ending, From, HubGiven, HubStatus, Owner, Seat, SharedHub } from './hub.ts'
import type { Entry, PartitionQueue } from './partitionQueue.ts'
import { Farewell } from './spread.ts'

/** Longest wait for what clients have in hand, when the hub closes (streams R23). */
const FLUSH_MS = 2000

/** Modes `group` and `key`: each message to one client, each source read as a member of its group while clients are there. */
export function groupHub(given: HubGiven): SharedHub {
  return new GroupHub(given)
}

class GroupHub implements SharedHub, SourceHost, DispatchHost {
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
  /** Why sources stood still when one told last; null: they do not. */
  #standing: string | null = null
  #cancelIdle: (() => void) | null = null
  #isClosing = false
  #closing: Promise<void> | null = null
  readonly #farewell: Farewell
  /** Called when clients have nothing in hand any more. */
  #settled: (() => void) | null = null

  constructor(given: HubGiven) {
    const { api, stream, log, clock, sources } = given
    this.#given = given
    this.#farewell = new Farewell(clock)
    this.#fields = { api_id: api, stream }
    this.#givenUp = seldom(log, clock, 'stream message given up', this.#fields)
    this.#troubled = seldom(log, clock, 'stream trouble', this.#fields)
    this.#dispatch = new Dispatch(given, this)
    const topics = sources.flatMap(({ joining }) => joining.topics)
    this.#sources = sources.map(source => new GroupSource(source, topics, given, this))
  }

  join(client: Client, _from: From | null, owner: Owner | null = null): Seat | No {
    const { seats } = this.#dispatch
    if (this.#isClosing) return nos.draining
    if (this.#given.budget.isFull) return nos.budget
    const seat = new GroupSeat(client, this.#seats++, this.#dispatch, owner)
    owner?.clients.add(client)
    this.#clients[client.transport]++
    this.#dispatch.add(seat)
    if (seats.size === 1) {
      this.#cancelIdle?.()
      this.#cancelIdle = null
      for (const source of this.#sources) source.enter()
    }
    return seat
  }

  trouble(): string | null {
    return this.#sources.find(({ trouble }) => trouble !== null)?.trouble ?? null
  }

  status(): HubStatus {
    const queues = this.#queues()
    for (const source of this.#sources) source.learnHighs()
    const lags = this.#sources.map(({ lag }) => lag)
    return {
      state: this.#state(),
      clients: { ...this.#clients },
      ...this.#dispatch.counts,
      queued: sum(queues, ({ waiting }) => waiting),
      lag: lags.includes(-1) ? -1 : lags.reduce((sum, lag) => sum + lag, 0),
      partitions: queues.length,
      paused: sum(queues, ({ isPaused }) => (isPaused ? 1 : 0)),
      lastError: this.#lastError
    }
  }

  close(why: Ending, spreadMs: number): Promise<void> {
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
    return Promise.all([this.#farewell.say(clients, why, spreadMs), this.#closing]).then(() => {})
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
    if (fault !== null) {
      this.#lastError = fault
      this.#standing = fault
    } else if (this.#standing !== null) {
      // What is over is no trouble any more; what came of messages stays.
      if (this.#lastError === this.#standing) this.#lastError = null
      this.#standing = null
    }
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

  gone({ client, owner }: GroupSeat): void {
    const { clock, settings } = this.#given
    owner?.clients.delete(client)
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
