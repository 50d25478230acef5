import type { Key } from '../../config/shape/key.ts'
import type { AccessRight, ApiLimit, RateLimitMode } from '../../config/shape/limit.ts'
import { Invalid } from '../../config/validate.ts'
import { quotaCharge, type RateHabits, rateCharge } from '../counters/charges.ts'
import type { Charge } from '../counters/counters.ts'
import { CompileBudget, comparePaths, type Matching, type PathRule, pathRule } from '../paths.ts'
import { isEmptyLimit } from './merge.ts'
import { type Asked, type Pattern, patternOf } from './pattern.ts'
import type { Recent } from './recent.ts'
import { customId } from './token.ts'

/** What a request is counted against; null: unlimited. */
export interface Charges {
  readonly rate: Charge | null
  readonly quota: Charge | null
}

/** A limit that takes the place of the broader rate where it matches (semantics §5.2). */
export interface EndpointLimit {
  /** `path`: behind the listen path, in normal form. */
  readonly matches: (method: string, path: string) => boolean
  readonly charge: Charge | null
  /** The charge with the quota beside it, for every request that hits the limit. */
  readonly charges: Charges
  /** `METHOD:path` */
  readonly name: string
  readonly limit: ApiLimit
}

export interface GrantTools {
  readonly habits: RateHabits
  /** How `allowed_urls` and endpoint limits lie on paths. */
  readonly matching: Matching
  /** Charges under patterns, bounded: a pattern's values come from clients. */
  readonly patterned: Recent<Charges>
}

/** What a key may do on one API, and how it is counted there. Never changed once made. */
export class Grant {
  readonly right: AccessRight
  readonly rate: Charge | null
  readonly quota: Charge | null
  /** Null: a request over the rate is refused at once. */
  readonly throttle: { readonly intervalMs: number; readonly retries: number } | null
  /** In order of precedence (semantics §3.8): the first that matches counts. */
  readonly endpointLimits: readonly EndpointLimit[]
  /** Names what is counted instead of the key. */
  readonly pattern: Pattern | null
  /** As the key or its right has it: 0 and below are unlimited. */
  readonly quotaMax: number
  readonly rateShown: { readonly rate: number; readonly per: number }
  /** Of its policies, or the key itself; null: as the API says. */
  readonly rateLimitMode: RateLimitMode | null
  readonly #urls: readonly { readonly methods: ReadonlySet<string>; readonly matches: PathRule }[] | null
  readonly #limit: ApiLimit
  readonly #scope: string
  readonly #org: string
  readonly #tools: GrantTools
  readonly #serial = made++

  /**
   * @param hash the key's storage id
   */
  constructor(key: Key, hash: string, org: string, right: AccessRight, tools: GrantTools) {
    const lies = lazyRules(tools.matching)
    const limit = isEmptyLimit(right.limit) ? key : right.limit!
    this.right = right
    this.#limit = limit
    this.#scope = right.allowance_scope ?? ''
    this.#org = org
    this.#tools = tools
    this.rate = rateCharge(counterId('rate', hash, this.#scope), limit, tools.habits)
    this.quota = quotaCharge(counterId('quota', hash, this.#scope), limit)
    this.throttle = throttleOf(limit)
    this.endpointLimits = endpointLimits(right, hash, this.#scope, this.quota, tools, lies)
    this.pattern = patternOf(key.meta_data)
    this.quotaMax = limit.quota_max ?? 0
    this.rateLimitMode = key.rate_limit_mode ?? null
    this.rateShown = { rate: limit.rate ?? 0, per: limit.per ?? 0 }
    const urls = right.allowed_urls ?? []
    this.#urls =
      urls.length === 0
        ? null
        : urls.map(({ url, methods }) => ({
            methods: new Set((methods ?? []).map(method => method.toUpperCase())),
            matches: lies(url)
          }))
  }

  /** Whether `allowed_urls` has the request; an empty list has all. `path`: behind the listen path, in normal form. */
  allows(method: string, path: string): boolean {
    if (this.#urls === null) return true
    for (const url of this.#urls) if (url.methods.has(method) && url.matches(path)) return true
    return false
  }

  /** What counts for one request: an endpoint's rate instead of the key's, a pattern's counters instead of the key's. */
  charges(method: string, path: string, request: Asked): Charges {
    let endpoint: EndpointLimit | null = null
    for (let i = 0; i < this.endpointLimits.length && endpoint === null; i++) {
      if (this.endpointLimits[i]!.matches(method, path)) endpoint = this.endpointLimits[i]!
    }
    const part = this.pattern === null ? '' : this.pattern(request)
    if (part !== '') return this.#under(part, endpoint)
    return endpoint === null ? this : endpoint.charges
  }

  /** Ids of all its counters, but for those under a pattern's values. */
  counterIds(): string[] {
    return [this.rate, this.quota, ...this.endpointLimits.map(({ charge }) => charge)].flatMap(
      charge => charge?.id ?? []
    )
  }

  #under(part: string, endpoint: EndpointLimit | null): Charges {
    const { patterned, habits } = this.#tools
    const name = `${this.#serial}\n${endpoint?.name ?? ''}\n${part.length > 256 ? customId('', part) : part}`
    const known = patterned.get(name)
    if (known !== undefined) return known
    // Custom ids hold no NUL, so no key has such an id.
    const hash = customId(this.#org, `\0${part}`)
    const rateId = counterId('rate', hash, this.#scope, endpoint?.name)
    const rate = rateCharge(rateId, endpoint?.limit ?? this.#limit, habits)
    const quota = quotaCharge(counterId('quota', hash, this.#scope), this.#limit)
    return patterned.set(name, { rate, quota })
  }
}

let made = 0

/** Storage ids are hexadecimal, so what stands behind them cannot be taken for a part of them. */
function counterId(kind: 'rate' | 'quota', hash: string, scope: string, endpoint = ''): string {
  return `${kind}-${hash}${scope === '' ? '' : `-${scope}`}${endpoint === '' ? '' : `\n${endpoint}`}`
}

function throttleOf({ throttle_interval = 0, throttle_retry_limit = 0 }: ApiLimit): Grant['throttle'] {
  if (!(throttle_interval > 0 && throttle_retry_limit > 0)) return null
  return { intervalMs: Math.max(1, Math.round(throttle_interval * 1000)), retries: throttle_retry_limit }
}

/** What the paths of one right may cost to compile: twice what one key or policy may, as several may be merged. */
const MOST_COMPILED = 20_000

/**
 * Rules that compile when they are first asked: whoever reads or counts keys needs none. Keys and policies are checked
 * when they are saved, so only policies that were changed since can be too much together; what then does not compile
 * takes no path.
 */
function lazyRules(matching: Matching): (pattern: string) => PathRule {
  const budget = new CompileBudget(MOST_COMPILED)
  return pattern => {
    let rule: PathRule | null = null
    return path => {
      rule ??= ruleOrNone(pattern, matching, budget)
      return rule(path)
    }
  }
}

function ruleOrNone(pattern: string, matching: Matching, budget: CompileBudget): PathRule {
  try {
    return pathRule(pattern, matching, budget)
  } catch (cause) {
    if (!(cause instanceof Invalid)) throw cause
    return () => false
  }
}

function endpointLimits(
  right: AccessRight,
  hash: string,
  scope: string,
  quota: Charge | null,
  tools: GrantTools,
  rule: (pattern: string) => PathRule
): EndpointLimit[] {
  const limits = (right.endpoints ?? []).toSorted((a, b) => comparePaths(a.path, b.path))
  return limits.flatMap(({ path, methods }) => {
    const lies = rule(path)
    return methods.map(({ name: given, limit }) => {
      const method = given.toUpperCase()
      const name = `${method}:${path}`
      const matches = (asked: string, at: string) => asked === method && lies(at)
      const charge = rateCharge(counterId('rate', hash, scope, name), limit, tools.habits)
      return { name, limit, matches, charge, charges: { rate: charge, quota } }
    })
  })
}
