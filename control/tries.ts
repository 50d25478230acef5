import { Conflict, type Kind } from '../gateway/store/store.ts'
import { Refused } from './endpoint.ts'

/** Tries of a change that others get ahead of; each time somebody's change succeeds. */
const MOST_TRIES = 100

/**
 * A change that begins from what a document is now: begun again when somebody else's came in between.
 * @param noun of the document, for the refusal
 * @param change reads, makes and commits; it may run again
 * @param of the document; without it a conflict on any other counts as well
 * @throws Refused 409 when others always come in between; Conflict on another document than `of`
 */
export async function tried<T>(
  noun: string,
  change: () => Promise<T>,
  of?: { readonly kind: Kind; readonly id: string }
): Promise<T> {
  for (let tries = 0; tries < MOST_TRIES; tries++) {
    try {
      return await change()
    } catch (cause) {
      if (!(cause instanceof Conflict)) throw cause
      if (of !== undefined && (cause.kind !== of.kind || cause.id !== of.id)) throw cause
    }
  }
  throw new Refused(409, `The ${noun} is being changed by others`)
}

/** The same for one document that alone may be in others' hands. */
export function changing<T>(kind: Kind, id: string, change: () => Promise<T>): Promise<T> {
  return tried(kind, change, { kind, id })
}
