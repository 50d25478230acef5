import { parentPort } from 'node:worker_threads'
import { compareSync, getRounds, hashSync } from 'bcryptjs'

/** Asked of the thread; `hash` null: make one. */
export interface Ask {
  readonly n: number
  readonly text: string
  readonly hash: string | null
}

/** `value` null: it could not be done. */
export interface Answer {
  readonly n: number
  readonly value: string | boolean | null
}

/** 2^10 rounds: some 50 ms of a core. */
const COST = 10
/** A hash from elsewhere that asks for more would hold the thread up for seconds. */
const MOST_COST = 14

parentPort!.on('message', ({ n, text, hash }: Ask) => {
  let value: Answer['value'] = null
  try {
    value = hash === null ? hashSync(text, COST) : getRounds(hash) <= MOST_COST && compareSync(text, hash)
  } catch {
    // A hash that is none matches nothing.
    value = hash === null ? null : false
  }
  parentPort!.postMessage({ n, value } satisfies Answer)
})
