import { Conflict, type Kind, Unavailable } from '../store/store.ts'

/** A question, or the answer to the one of that number. */
type Word<Question> =
  | { readonly n: number; readonly ask: Question }
  | { readonly n: number; readonly value: unknown }
  | { readonly n: number; readonly fault: Fault }

/** What was thrown, as far as callers tell one from another. */
type Fault =
  | { readonly is: 'conflict'; readonly kind: Kind; readonly id: string }
  | { readonly is: 'unavailable' | 'other'; readonly message: string }

/** A `MessagePort`, or a `Worker`. */
interface Port<Question> {
  postMessage(word: Word<Question>): void
}

interface Caller {
  resolve(value: unknown): void
  reject(cause: Error): void
}

/** Questions waiting for an answer at most. */
const MOST = 50_000

/** The other end is gone: whatever it was asked, it has neither done nor refused. */
export class Gone extends Error {}

/** One end of a conversation in which both ends ask and answer. */
export class Calls<Asks, Asked> {
  readonly #port: Port<Asks>
  readonly #answer: (question: Asked) => unknown
  readonly #callers = new Map<number, Caller>()
  #count = 0
  #isOver = false

  /** @param answer what it returns, or resolves to, is the answer; what it throws, the other end's `ask` throws */
  constructor(port: Port<Asks>, answer: (question: Asked) => unknown) {
    this.#port = port
    this.#answer = answer
  }

  /** @throws Gone, Unavailable, Conflict, or Error with the message of whatever was thrown there */
  ask<T>(question: Asks): Promise<T> {
    return new Promise((resolve, reject) => {
      if (this.#isOver) return reject(new Gone('the thread has ended'))
      if (this.#callers.size >= MOST) return reject(new Unavailable('too many calls wait for another thread'))
      const n = ++this.#count
      this.#port.postMessage({ n, ask: question })
      this.#callers.set(n, { resolve: resolve as Caller['resolve'], reject })
    })
  }

  /** A word has come. */
  take(word: Word<Asked>): void {
    if ('ask' in word) return void this.#reply(word.n, word.ask)
    const caller = this.#callers.get(word.n)
    this.#callers.delete(word.n)
    if ('value' in word) caller?.resolve(word.value)
    else caller?.reject(thrown(word.fault))
  }

  /** The other end is gone. */
  end(): void {
    this.#isOver = true
    for (const { reject } of this.#callers.values()) reject(new Gone('the thread has ended'))
    this.#callers.clear()
  }

  async #reply(n: number, question: Asked): Promise<void> {
    try {
      const value = await this.#answer(question)
      if (!this.#isOver) this.#port.postMessage({ n, value })
    } catch (cause) {
      this.#port.postMessage({ n, fault: faultOf(cause) })
    }
  }
}

function faultOf(cause: unknown): Fault {
  if (cause instanceof Conflict) return { is: 'conflict', kind: cause.kind, id: cause.id }
  const message = cause instanceof Error ? cause.message : String(cause)
  return { is: cause instanceof Unavailable ? 'unavailable' : 'other', message }
}

function thrown(fault: Fault): Error {
  if (fault.is === 'conflict') return new Conflict(fault.kind, fault.id)
  return fault.is === 'unavailable' ? new Unavailable(fault.message) : new Error(fault.message)
}
