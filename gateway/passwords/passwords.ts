import { Worker } from 'node:worker_threads'
import { Unavailable } from '../store/store.ts'
import { type HashType, LONGEST_PASSWORD, passwordFault } from './hashes.ts'
import type { Answer, Ask } from './passwordWorker.ts'
import { type Asker, type Refused, Waiting } from './waiting.ts'

interface Job {
  readonly ask: Ask
  readonly asker: Asker | null
  /** Also with why it was turned away while it waited, which is callers' alone. */
  readonly resolve: (value: Answer | Refused) => void
  readonly reject: (cause: Error) => void
  /** Threads that ended with it. */
  ended: number
}

/** How often one job may bring its thread down. */
const MOST_ENDED = 2

/**
 * Passwords off the event loop: a thread that gives way to all others, started by the first password and anew when it has
 * died. One hash at a time, so that memory and processor are bounded whatever the hashes ask for.
 */
export class Passwords {
  readonly #start: () => Worker
  readonly #waiting = new Waiting<Job>(({ resolve }, refused) => resolve(refused))
  #worker: Worker | null = null
  #under: Job | null = null

  constructor(start: () => Worker = startWorker) {
    this.#start = start
  }

  /** For management. Rejects with Unavailable when too many wait, RangeError when it is too long for this type of hash. */
  async hash(text: string, type: HashType): Promise<string> {
    const fault = passwordFault(text, type)
    if (fault !== null) throw new RangeError(fault)
    const value = await this.#own({ text, type })
    if (typeof value !== 'string') throw new Error('the password could not be hashed')
    return value
  }

  /** For management: whether a password belongs to a hash; '' is nobody's. Rejects with Unavailable when too many wait. */
  async verify(text: string, hash: string): Promise<boolean> {
    if (hash === '' || isTooLong(text)) return false
    return (await this.#own({ text, hash })) === true
  }

  /** For callers of APIs. Rejects with Unavailable when the threads die of it. */
  check(text: string, hash: string, asker: Asker): Promise<boolean | Refused> | Refused {
    const asked = this.#ask({ text, hash }, asker)
    if (!(asked instanceof Promise)) return asked
    return asked.then(value => (value === 'too many' || value === 'full' ? value : value === true))
  }

  /** A caller's password was wrong, remembered or not: what else comes from there has less room. */
  failed(asker: Asker): void {
    this.#waiting.failed(asker)
  }

  #own(ask: Ask): Promise<Answer> {
    const asked = this.#ask(ask, null)
    if (!(asked instanceof Promise)) throw new Unavailable('too many passwords wait')
    return asked
  }

  #ask(ask: Ask, asker: Asker | null): Promise<Answer> | Refused {
    const { promise, resolve, reject } = Promise.withResolvers<Answer>()
    const added = this.#waiting.add({ ask, asker, resolve, reject, ended: 0 }, asker)
    if (added !== 'added') return added
    if (this.#under === null) this.#go()
    return promise
  }

  /** On with the next one; a thread without work keeps no process alive. */
  #go(): void {
    this.#under = this.#waiting.next() ?? null
    if (this.#under === null) this.#worker?.unref()
    else this.#send(this.#under)
  }

  #send({ ask }: Job): void {
    this.#worker ??= this.#started()
    this.#worker.ref()
    this.#worker.postMessage(ask)
  }

  #started(): Worker {
    const worker = this.#start()
    const ended = (cause: Error) => {
      if (this.#worker === worker) this.#ended(cause)
    }
    worker.on('message', (value: Answer) => {
      if (this.#worker !== worker) return
      const { resolve, asker } = this.#under!
      this.#waiting.end(asker)
      resolve(value)
      this.#go()
    })
    worker.on('error', ended)
    worker.on('exit', () => ended(new Error('the thread ended')))
    return worker
  }

  #ended(cause: Error): void {
    this.#worker = null
    const job = this.#under
    if (job === null) return
    if (++job.ended < MOST_ENDED) return this.#send(job)
    this.#waiting.end(job.asker)
    job.reject(new Unavailable('the thread of passwords ended', { cause }))
    this.#go()
  }
}

export function isTooLong(text: string): boolean {
  return Buffer.byteLength(text) > LONGEST_PASSWORD
}

function startWorker(): Worker {
  return new Worker(new URL('./passwordWorker.ts', import.meta.url), { name: 'passwords' })
}

/** Of this process; where threads serve the data plane, of each of them. */
export const passwords = new Passwords()
