import { Conflict, type Kind } from '../gateway/store/store.ts'
import { Refused } from './endpoint.ts'

/** Tries of a change that others get ahead of; each time somebody's change succeeds. */
const MOST_TRIES = 100

/**
 * Changes a document from what it is now, whoever else changes it.
 * @param attempt reads, makes and commits; it may run again
 * @throws Refused 409 when others are always faster; Conflict on another document
 */
export async function changing<T>(kind: Kind, id: string, attempt: () => Promise<T>): Promise<T> {
  for (let tries = 0; tries < MOST_TRIES; tries++) {
    try {
      return await attempt()
    } catch (cause) {
      if (!(cause instanceof Conflict) || cause.kind !== kind || cause.id !== id) throw cause
    }
  }
  throw new Refused(409, 'It is being changed by others')
}
