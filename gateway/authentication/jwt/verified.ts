import { hash } from 'node:crypto'
import type { KeySets } from '../../jwks/keySets.ts'
import type { Claims } from '../../keys/claims.ts'
import type { Session } from '../../keys/keys.ts'
import { Recent } from '../../keys/recent.ts'
import type { Owner } from './sources.ts'

/** A token whose signature and claims count, until `until`. */
export interface Verified {
  readonly claims: Claims
  /** The key of ours that it was verified with; null: others' keys. */
  readonly owner: Owner | null
  /** Who it speaks of; '' where `owner` says it. */
  readonly name: string
  /** When the token ends by itself, skew included, milliseconds since the epoch; Infinity: never. */
  readonly end: number
  /** How long this verification counts, milliseconds since the epoch. */
  readonly until: number
  /** Of the key sets, from before they were asked. */
  readonly epoch: number
  /** Set once it was decided for good. */
  policies: readonly string[] | null
  /** What was answered last, so that it need not be asked for with each request; null: nothing yet. */
  session: Session | null
  /** `Identities.version` from before it was asked for. */
  version: number
  /** When it is asked for again: sessions in use are prolonged and written. */
  againAt: number
}

/** Of all APIs together. */
const MOST = 20_000
/** Longer tokens are verified each time: so many of them would take too much memory. */
const LONGEST = 8_192

/** Verified tokens, by their SHA-256 and the scheme that has verified them. */
export class VerifiedTokens {
  readonly #all = new Recent<Verified>(MOST)
  #schemes = 0

  /** A prefix for the names of one scheme: what it has verified counts for no other, and not for its next version. */
  scheme(): string {
    return `${this.#schemes++} `
  }

  get(name: string): Verified | undefined {
    return this.#all.get(name)
  }

  keep(name: string, token: string, verified: Verified): void {
    if (token.length <= LONGEST) this.#all.set(name, verified)
  }
}

/** Names are never shown: each byte one character, which is the shortest form. */
export function digest(token: string): string {
  return hash('sha256', token, 'latin1')
}

const memories = new WeakMap<object, VerifiedTokens>()

/** The memory that goes with these key sets: one for all APIs of a plane, so that it is bounded once. */
export function tokensOf(keySets: Pick<KeySets, 'epoch'>): VerifiedTokens {
  const known = memories.get(keySets) ?? new VerifiedTokens()
  memories.set(keySets, known)
  return known
}
