import type { Clock } from '../../config/world.ts'
import { Undelivered } from '../undelivered.ts'
import type { DurableLog, Kept } from './durableLog.ts'
import type { MemoryGroups } from './memoryGroup.ts'
import type { MemoryTopics } from './memoryTopic.ts'

interface LoadingGiven {
  /** NAME of the broker */
  readonly name: string
  readonly durable: DurableLog
  readonly clock: Clock
  /** What was read; comes again after `again`. */
  loaded(kept: Kept): void
  /** It is not known what the log holds; it is read again by and by. */
  failed(fault: string): void
}

/** Between two tries, ms. */
const retryMs = 1_000
/** So long a call waits, ms: a timer takes no more than 2^31. */
const longestWait = 86_400_000
/** So many calls wait. */
const mostWaiting = 10_000

/** Reads a durable log, again and again until it succeeds; what needs it waits here. */
export class DurableLoading {
  readonly #given: LoadingGiven
  #waiting: (() => void)[] = []
  #fault: string | null = null
  #cancelRetry = () => {}
  #isClosed = false

  constructor(given: LoadingGiven) {
    this.#given = given
  }

  /** The first time. */
  begin(): void {
    void this.#load()
  }

  /** After a failed write: what was written nevertheless must be known before the next. */
  again(error: Error): void {
    if (!this.#isClosed) this.#failed(error.message)
  }

  /** Runs it once the log has been read. */
  after(run: () => void): void {
    this.#waiting.push(run)
  }

  /** Resolves once the log has been read. @throws Undelivered when it cannot be, or not by then */
  done(deadline = Number.POSITIVE_INFINITY): Promise<void> {
    const { clock } = this.#given
    if (this.#fault !== null) return Promise.reject(new Undelivered('unavailable', this.#fault))
    if (this.#waiting.length >= mostWaiting)
      return Promise.reject(new Undelivered('busy', 'too many wait for the durable log'))
    return new Promise((resolve, reject) => {
      const late = () => reject(new Undelivered('unavailable', 'the durable log was not read in time'))
      const cancel = clock.after(Math.min(deadline - clock.now(), longestWait), late)
      this.#waiting.push(() => {
        cancel()
        resolve()
      })
    })
  }

  /** Nothing is read any more; what waits goes on, and finds the broker closed. */
  close(): void {
    this.#isClosed = true
    this.#cancelRetry()
    this.#goOn()
  }

  async #load(): Promise<void> {
    try {
      const kept = await this.#given.durable.load(this.#given.name)
      if (this.#isClosed) return
      this.#given.loaded(kept)
      this.#fault = null
      this.#goOn()
    } catch (error) {
      if (!this.#isClosed) this.#failed(`the durable log cannot be read: ${(error as Error).message}`)
    }
  }

  #failed(fault: string): void {
    this.#fault = fault
    this.#given.failed(fault)
    this.#cancelRetry = this.#given.clock.after(retryMs, () => void this.#load())
  }

  #goOn(): void {
    const waiting = this.#waiting
    this.#waiting = []
    for (const run of waiting) run()
  }
}

/**
 * Takes over what is not in memory yet: all of it at first; after a failed write, what was written nevertheless.
 * @param groups null: those in memory are newer
 */
export function restore(kept: Kept, topics: MemoryTopics, groups: MemoryGroups | null, now: number): void {
  for (const { topic, lows } of kept.topics) {
    const { logs } = topics.make(topic, lows.length)
    for (const [partition, low] of lows.entries()) {
      const log = logs[partition]!
      log.keptLow = low
      if (low > log.high) log.startAt(low)
    }
  }
  for (const { topic, partition, base, records } of kept.segments) {
    const log = topics.make(topic, partition + 1).logs[partition]!
    if (base > log.high) log.startAt(base)
    for (let i = Math.max(0, log.high - base); i < records.length; i++) log.append(records[i]!, records[i]!.timestamp)
  }
  if (groups !== null) for (const { group, commits } of kept.groups) groups.get(group).restore(commits)
  for (const { logs } of topics.all())
    for (const log of logs) {
      log.trim(now)
      log.wake()
    }
}
