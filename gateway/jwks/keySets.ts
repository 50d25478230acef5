/** A JSON Web Key Set (RFC 7517 §5) as it was fetched. Treat as frozen. */
export interface KeySet {
  readonly keys: readonly Readonly<Record<string, unknown>>[]
  /** Until when it counts without being fetched again, milliseconds since the epoch. */
  readonly until: number
}

/** Where a set of keys lies, and for how long an answer counts; 0: as `gateway.jwks.cache.timeout`. */
export interface KeySetPlace {
  readonly url: string
  readonly cacheMs: number
}

/** Nobody answers at the address of a key set, and none is remembered. */
export class KeySetUnavailable extends Error {}

/** Key sets of other servers: fetched, bounded, remembered for each API and address (semantics §6.6, §8.7). */
export interface KeySets {
  /**
   * The set at an address. `missing` is a `kid` that was not in the one last answered: then it is fetched again, but at most
   * once in 5 s an address; in between the same set comes back.
   * While the other side is away, the old set still counts, for a bounded time. @throws KeySetUnavailable (rejects with it)
   */
  get(apiId: string, place: KeySetPlace, missing?: string): KeySet | Promise<KeySet>
  /** Raised whenever something was forgotten or a set has changed: what was verified before must be verified again. */
  readonly epoch: number
  /** On every process and thread. */
  forget(apiId: string): Promise<void>
  forgetAll(): Promise<void>
  close(): void
}
