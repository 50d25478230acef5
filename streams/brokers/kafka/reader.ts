import type { Log } from '../../../config/world.ts'
import type { Place, Position, Reading, Taker } from '../../broker.ts'
import type { Cluster } from './cluster.ts'
import { textOf } from './errors.ts'
import { Fetching } from './fetching.ts'

/**
 * Reads from given positions, alone: the protocol needs no group for that, so there is none to join, to leave behind or to have rights on,
 * and the first record comes after one request.
 */
export class Reader implements Reading {
  readonly #cluster: Cluster
  readonly #fetching: Fetching
  readonly #to: Taker
  readonly #isExact: boolean
  readonly #refreshMs: number
  /** Partitions of each topic as they were when it began. */
  readonly #counts = new Map<string, number>()
  #cancel: () => void
  #isClosed = false

  constructor(cluster: Cluster, log: Log, from: readonly Position[], isExact: boolean, refreshMs: number, to: Taker) {
    this.#cluster = cluster
    this.#to = to
    this.#isExact = isExact
    this.#refreshMs = refreshMs
    this.#fetching = new Fetching(cluster, log, { isolation: 'read_committed', rackId: '' }, to, () => this.#tell())
    this.#cancel = cluster.clock.after(0, () => void this.#start(from))
  }

  pause(place: Place): void {
    this.#fetching.pause(place)
  }

  resume(place: Place): void {
    this.#fetching.resume(place)
  }

  commit(): Promise<void> {
    return Promise.resolve()
  }

  close(): Promise<void> {
    this.#isClosed = true
    this.#cancel()
    this.#fetching.close()
    return Promise.resolve()
  }

  async #start(from: readonly Position[]): Promise<void> {
    const topics = new Set(from.map(({ topic }) => topic))
    for (let waitMs = 100; ; waitMs = Math.min(waitMs * 2, 5_000)) {
      try {
        for (const topic of topics) {
          if (this.#counts.has(topic)) continue
          const { leaders } = await this.#cluster.refresh(topic)
          this.#counts.set(topic, leaders.length)
        }
        break
      } catch (error) {
        this.#fetching.fault(textOf(error))
      }
      await new Promise<void>(resolve => (this.#cancel = this.#cluster.clock.after(waitMs, resolve)))
      if (this.#isClosed) return
    }
    if (this.#isClosed) return
    this.#to.assigned(from.map(({ topic, partition, offset }) => ({ topic, partition, offset })))
    this.#fetching.assign(from)
    if (!this.#isExact) this.#look()
  }

  #tell(): void {
    this.#to.assigned(this.#fetching.positions())
  }

  /** Looks for partitions that were added. */
  #look(): void {
    this.#cancel = this.#cluster.clock.after(this.#refreshMs, () => {
      const asked = [...this.#counts.keys()].map(topic => this.#cluster.refresh(topic))
      void Promise.allSettled(asked).then(() => {
        if (this.#isClosed) return
        this.#grow()
        this.#look()
      })
    })
  }

  #grow(): void {
    const added: Position[] = []
    for (const [topic, count] of this.#counts) {
      const now = this.#cluster.seen(topic)?.leaders.length ?? count
      for (let partition = count; partition < now; partition++) added.push({ topic, partition, offset: 0 })
      if (now > count) this.#counts.set(topic, now)
    }
    if (added.length === 0) return
    this.#to.assigned([...this.#fetching.positions(), ...added])
    this.#fetching.add(added)
  }
}
