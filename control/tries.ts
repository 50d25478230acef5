import { Conflict } from '../gateway/store/store.ts'
import { Refused } from './endpoint.ts'

/** Tries of a change that others get ahead of; each time somebody's change succeeds. */
const MOST_TRIES = 100

/**
 * A change that begins from what a document is now: begun again when somebody else's came in between.
 * @param noun of the document, for the refusal
 * @throws Refused 409 when others always come in between
 */
export async function tried<T>(noun: string, change: () => Promise<T>): Promise<T> {
  for (let tries = 0; tries < MOST_TRIES; tries++) {
    try {
      return await change()
    } catch (cause) {
      if (!(cause instanceof Conflict)) throw cause
    }
  }
  throw new Refused(409, `The ${noun} is being changed by others`)
}
