import { compareSync, getRounds, hashSync } from 'bcryptjs'
import { fitsArgon2id, hashArgon2id, isArgon2id } from './argon2id.ts'

/** Passwords and their hashes. What hashes takes its time: it is for the thread of `passwordWorker.ts`. */

export const hashTypes = ['bcrypt', 'argon2id'] as const
export type HashType = (typeof hashTypes)[number]

export function isHashType(text: string): text is HashType {
  return (hashTypes as readonly string[]).includes(text)
}

/** Bytes of UTF-8. bcrypt looks at no more: what is longer would be one password with others. */
const LONGEST: Record<HashType, number> = { bcrypt: 72, argon2id: 1024 }
/** Longer ones are nobody's. */
export const LONGEST_PASSWORD = LONGEST.argon2id

/** 2^10 rounds: some 50 ms of a core. */
const COST = 10
/** A hash from elsewhere that asks for more would hold the thread up for seconds. */
const MOST_COST = 14

/**
 * Of a password that nobody knows: who has no hash is held against this one, and takes the time of a user whose hash is of
 * the usual type and cost. Users of argon2id, or with hashes from elsewhere, take another.
 */
export const NOBODYS = '$2b$10$9UnzbyqK45uYEudD1.TNBO718ZdK7My9blSN7rJRY42YWDVeTupca'

/** Why a password cannot be hashed so; null: it can. */
export function passwordFault(text: string, type: HashType): string | null {
  return isLonger(text, type) ? `A password may have at most ${LONGEST[type]} bytes` : null
}

function isLonger(text: string, type: HashType): boolean {
  return Buffer.byteLength(text) > LONGEST[type]
}

export function typeOf(hash: string): HashType {
  return isArgon2id(hash) ? 'argon2id' : 'bcrypt'
}

export function hashed(text: string, type: HashType): string {
  return type === 'argon2id' ? hashArgon2id(text) : hashSync(text, COST)
}

/** What is no hash, or costs too much, fits nothing. A password that is too long takes the time of any other. */
export function fits(text: string, hash: string): boolean {
  const type = typeOf(hash)
  const same = type === 'argon2id' ? fitsArgon2id(text, hash) : getRounds(hash) <= MOST_COST && compareSync(text, hash)
  return same && !isLonger(text, type)
}
