import { getHeapStatistics } from 'node:v8'
import { Worker } from 'node:worker_threads'
import type { Clock, Log } from '../../config/world.ts'
import type { FilesRead } from '../documents/files.ts'
import type { Change, Store } from '../store/store.ts'
import { Calls, Gone } from './calls.ts'
import { storeForThread } from './storeOfMain.ts'
import type { Given, LogLine, Question, Task } from './words.ts'

/** A thread that takes longer to take over a change is of no use: it would hold up every write. */
const CONFIRM_MS = 5_000
/** It reads what the main thread has just read in far less. */
const RELOAD_MS = 60_000
/** As `--max-semi-space-size=16` gives the main thread. */
const YOUNG_MB = 48

export interface MemberGiven {
  readonly data: Given
  readonly store: Store
  readonly clock: Clock
  readonly log: Log
  /** Takes lines of its access log. */
  readonly access: (text: string) => void
  /** What fails of its counters outside of the process; null: nothing any more. */
  readonly onCounters: (failure: string | null) => void
  /** Called once. */
  readonly onEnd: () => void
}

/** The main thread's end of one thread. */
export class Member {
  readonly worker: Worker
  /** Resolves after its first reading; rejects when that fails or it ends before. */
  readonly loaded: Promise<void>
  readonly #calls: Calls<Task, Question>
  readonly #given: MemberGiven
  #state: 'starting' | 'serving' | 'ended' = 'starting'
  #hasLoaded: () => void = () => {}
  #notLoaded: (cause: Error) => void = () => {}

  constructor(given: MemberGiven) {
    this.#given = given
    const { data, store, log, onEnd } = given
    const { number } = data
    const reader = storeForThread(store)
    this.loaded = new Promise((resolve, reject) => {
      this.#hasLoaded = resolve
      this.#notLoaded = reject
    })
    this.loaded.catch(() => {})
    this.worker = new Worker(new URL('./thread.ts', import.meta.url), {
      workerData: data,
      name: `gateway ${number}`,
      resourceLimits: {
        maxOldGenerationSizeMb: Math.floor(getHeapStatistics().heap_size_limit / 1024 / 1024),
        maxYoungGenerationSizeMb: YOUNG_MB
      }
    })
    this.#calls = new Calls<Task, Question>(this.worker, question => {
      switch (question.is) {
        case 'counters':
          return given.onCounters(question.failure)
        case 'lines':
          return this.#lines(question.of, question.text)
        default:
          return reader.answer(question)
      }
    })
    this.worker.on('message', word => this.#calls.take(word))
    this.worker.on('error', cause => {
      const stack = cause instanceof Error ? cause.stack : undefined
      log.error('fault: the thread ends', { thread: number, cause: String(cause), stack })
    })
    this.worker.on('exit', () => {
      this.#state = 'ended'
      this.#calls.end()
      this.#notLoaded(new Gone(`thread ${number} ended while it started`))
      reader.close()
      onEnd()
    })
  }

  get isServing(): boolean {
    return this.#state === 'serving'
  }

  ask<T>(task: Task): Promise<T> {
    return this.#calls.ask(task)
  }

  /**
   * Resolves once it serves what the main thread read, or no longer lives: one that cannot is ended, since it would go on
   * with another state than all others. From the first time on it confirms changes: those before it reads by itself.
   */
  async load(files: FilesRead): Promise<void> {
    const { clock, log, data } = this.#given
    const cancel = clock.after(RELOAD_MS, () => {
      log.error('the thread takes too long to read: it is ended', { thread: data.number })
      void this.end()
    })
    try {
      const faults = await this.ask<readonly string[]>({ is: 'load', files })
      if (faults.length > 0) throw new Error(faults.join('; '))
      if (this.#state === 'starting') this.#state = 'serving'
      this.#hasLoaded()
    } catch (cause) {
      if (cause instanceof Gone) return
      log.error('the thread cannot take over what was read: it is ended', { thread: data.number, cause: String(cause) })
      this.#notLoaded(cause as Error)
      await this.end()
    } finally {
      cancel()
    }
  }

  /**
   * Resolves once it counts by these changes, or no longer lives; one that does not answer is ended.
   * @throws what its listeners throw
   */
  async tell(changes: readonly Change[] | null): Promise<void> {
    if (this.#state === 'ended') return
    const { clock, log, data } = this.#given
    const told = this.ask<void>({ is: 'changes', changes })
    // It takes the change over before its first request.
    if (this.#state === 'starting') return void told.catch(cause => this.#missed(cause))
    const cancel = clock.after(CONFIRM_MS, () => {
      log.error('the thread does not confirm a change: it is ended', { thread: data.number })
      void this.end()
    })
    try {
      await told
    } catch (cause) {
      if (!(cause instanceof Gone)) throw cause
    } finally {
      cancel()
    }
  }

  /** What it could not take over while it started would be unknown to it for ever. */
  #missed(cause: unknown): void {
    if (cause instanceof Gone) return
    const { log, data } = this.#given
    log.error('a starting thread could not take over a change: it is ended', {
      thread: data.number,
      cause: String(cause)
    })
    void this.end()
  }

  /** At once, whatever it does. */
  async end(): Promise<void> {
    await this.worker.terminate()
  }

  #lines(of: 'access' | 'log', text: string): void {
    const { access, log, data } = this.#given
    if (of === 'access') return access(text)
    for (const line of text.trimEnd().split('\n')) {
      const [level, msg, fields] = JSON.parse(line) as LogLine
      log[level](msg, { ...fields, thread: data.number })
    }
  }
}
