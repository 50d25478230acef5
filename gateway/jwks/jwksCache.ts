/** A JSON Web Key Set (RFC 7517 §5) as it was fetched. Treat as frozen. Who fetches it bounds its size. */
export interface KeySet {
  readonly keys: readonly Readonly<Record<string, unknown>>[]
}

/** The port behind which fetched key sets are remembered, for each API its own. */
export interface JwksCache {
  /** Null: not there, or too old. */
  get(apiId: string, url: string): KeySet | null
  /**
   * @param epoch as it was before the fetch: what was fetched before a `forget` is not kept after it
   * @param forMs how long it counts, milliseconds
   */
  set(apiId: string, url: string, set: KeySet, given: { readonly epoch: number; readonly forMs: number }): void
  /** Counts the calls of `forget` and `forgetAll`. */
  readonly epoch: number
  /** Of an API that has none, nothing. */
  forget(apiId: string): void
  forgetAll(): void
}
