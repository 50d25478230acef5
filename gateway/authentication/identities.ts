import type { Authentication } from '../api.ts'
import type { Session } from '../keys/keys.ts'
import type { Refusal } from '../refusals.ts'

/** What a verified token says of its caller. */
export interface Identity {
  readonly org: string
  /** The value of the claim that names it. */
  readonly name: string
  /** Policies that the token stands for, in its order; null: it says nothing of them, the session keeps those it has. */
  readonly policies: readonly string[] | null
  /** The policies are those of callers for whom no key is stored: a key that somebody made keeps its own. */
  readonly areDefaults?: boolean
  /** When the token ends, what is allowed for differing clocks included, milliseconds since the epoch; Infinity: never. */
  readonly until: number
  readonly lifetime: Authentication['lifetime']
}

/** How it stands now with the caller of a session that was made before. */
export interface Standing {
  /** Its key is in the store. */
  readonly isKept: boolean
  /** With the policies that it was made with it would be the same session, and nobody has switched it off. */
  readonly isSame: boolean
}

/**
 * Sessions of callers who have no key of ours but a token of somebody else's (semantics §6.6, §6.8). A session is a key
 * with the id md5(name) in hexadecimal, kept in the store, so that whoever manages keys finds, limits and switches off such
 * a caller like any other; that id opens nothing by itself. A key that somebody made under that id is the session as well;
 * it is never written here.
 */
export interface Identities {
  /** A session of this name is kept already. @throws Unavailable (or rejects with it) */
  isKept(org: string, name: string): boolean | Promise<boolean>
  /**
   * The session of a caller, made or brought up to date; a refusal where its policies cannot be applied.
   * A promise only where the store must be waited for. One that is in no memory while the store is away is not made: it
   * might be switched off. @throws Unavailable (or rejects with it)
   */
  session(identity: Identity): Session | Refusal | Promise<Session | Refusal>
  /** Another number once a session that was answered before may be another: keys or policies have changed. */
  readonly version: number
  close(): void | Promise<void>
}
