import { getHeapStatistics } from 'node:v8'
import { Worker } from 'node:worker_threads'
import type { Clock, Log } from '../../config/world.ts'
import type { Change, Store } from '../store/store.ts'
import { Calls, Gone } from './calls.ts'
import { storeForThread } from './storeOfMain.ts'
import type { Given, LogLine, Question, Task } from './words.ts'

/** A thread that takes longer to take over a change is of no use: it would hold up every write. */
const CONFIRM_MS = 5_000
/** As `--max-semi-space-size=16` gives the main thread. */
const YOUNG_MB = 48

export interface MemberGiven {
  readonly data: Given
  readonly store: Store
  readonly clock: Clock
  readonly log: Log
  /** Takes lines of its access log. */
  readonly access: (text: string) => void
  /** Called once. */
  readonly onEnd: () => void
}

/** The main thread's end of one thread. */
export class Member {
  readonly worker: Worker
  /**
   * Resolves with the faults of its first reading; rejects with `Gone` when it ends before. From then on it confirms
   * changes: those before it reads by itself.
   */
  readonly loaded: Promise<readonly string[]>
  readonly #calls: Calls<Task, Question>
  readonly #given: MemberGiven
  #state: 'starting' | 'serving' | 'ended' = 'starting'
  #ended: () => void = () => {}

  constructor(given: MemberGiven) {
    this.#given = given
    const { data, store, log, onEnd } = given
    const { number } = data
    const reader = storeForThread(store)
    let hasLoaded: (faults: readonly string[]) => void
    this.loaded = new Promise((resolve, reject) => {
      hasLoaded = resolve
      this.#ended = () => reject(new Gone(`thread ${number} ended while it started`))
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
        case 'loaded':
          if (question.faults.length === 0) this.#state = 'serving'
          return hasLoaded(question.faults)
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
      this.#ended()
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
