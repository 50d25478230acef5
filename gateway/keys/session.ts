import type { Key } from '../../config/shape/key.ts'
import type { Matching } from '../paths.ts'
import { Grant, type GrantTools } from './grant.ts'

export interface SessionTools extends GrantTools {
  /** Keys without access rights open every API of their organisation. */
  readonly allowMasterKeys: boolean
}

/**
 * `token`: nothing, the name is the secret; `password` and `certificate`: the one that the key has; `identity`: a token of
 * somebody else's in which the name was verified. The names of the last three are no secrets, so they alone open nothing.
 */
export type Proof = 'token' | 'password' | 'certificate' | 'identity'

/** A key as the request path uses it: its policies applied, never changed. */
export class Session {
  /** Storage id of the key; what logs and events show. */
  readonly hash: string
  readonly orgId: string
  readonly key: Key
  /** Milliseconds since the epoch; Infinity: never. */
  readonly expiresMs: number
  /** From when on the key counts as deleted (`goneAt`); Infinity: never. */
  readonly goneMs: number
  readonly inactive: boolean
  /** What a caller must show, beside the name of the key, to be taken for its owner. */
  readonly proof: Proof
  readonly #tools: SessionTools
  #own: Grant | null = null
  readonly #grants = new Map<string, { readonly grant: Grant | null; readonly matching: Matching }>()

  /** @param key with its policies applied */
  constructor(hash: string, orgId: string, key: Key, goneMs: number, tools: SessionTools, isIdentity = false) {
    this.hash = hash
    this.orgId = orgId
    this.key = key
    this.goneMs = goneMs
    this.expiresMs = (key.expires ?? 0) > 0 ? key.expires! * 1000 : Number.POSITIVE_INFINITY
    this.inactive = key.is_inactive === true
    this.proof = isIdentity
      ? 'identity'
      : key.basic_auth_data?.password
        ? 'password'
        : key.certificate
          ? 'certificate'
          : 'token'
    this.#tools = tools
  }

  /**
   * What the key may do on an API of its organisation; null: nothing. Made once for each API.
   * @param matching how paths match on this API, where it differs from the settings; made once for each API as well
   */
  grant(apiId: string, matching: Matching = this.#tools.matching): Grant | null {
    const known = this.#grants.get(apiId)
    if (known !== undefined && known.matching === matching) return known.grant
    const grant = this.#make(apiId, matching)
    // Ids of APIs come from routes, but bounded all the same.
    if (this.#grants.size >= 10_000) this.#grants.clear()
    this.#grants.set(apiId, { grant, matching })
    return grant
  }

  /** How the key is counted where no right has a limit of its own. */
  get own(): Grant {
    this.#own ??= new Grant(this.key, this.hash, this.orgId, {}, this.#tools)
    return this.#own
  }

  /** Ids of the counters that the key has (but for those under a pattern's values) on the APIs that `counts` names. */
  counterIds(counts: (apiId: string) => boolean = () => true): string[] {
    const apiIds = Object.keys(this.key.access_rights ?? {})
    const grants = apiIds.length === 0 ? [this.own] : apiIds.filter(counts).map(apiId => this.grant(apiId)!)
    return [...new Set(grants.flatMap(grant => grant.counterIds()))]
  }

  #make(apiId: string, matching: Matching): Grant | null {
    const rights = this.key.access_rights ?? {}
    const tools = matching === this.#tools.matching ? this.#tools : { ...this.#tools, matching }
    if (Object.hasOwn(rights, apiId)) return new Grant(this.key, this.hash, this.orgId, rights[apiId]!, tools)
    if (!this.#tools.allowMasterKeys || Object.keys(rights).length > 0) return null
    return new Grant(this.key, this.hash, this.orgId, {}, tools)
  }
}
