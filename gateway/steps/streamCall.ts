import type { Call } from '../../streams/call.ts'
import type { No } from '../../streams/refusals.ts'
import { answer, refuse } from '../answer.ts'
import type { Api } from '../api.ts'
import type { Charge, Counters, Verdict } from '../counters/counters.ts'
import { schemesOf } from '../documents/readAuthentication.ts'
import type { Exchange, Waiter } from '../exchange.ts'
import { type Refusal, refusal } from '../refusals.ts'
import { withoutQuery } from '../values.ts'
import { type Text, variable } from '../variables.ts'
import type { Tools } from './step.ts'

/** What a stream's connection needs of its request for as long as it lives. */
interface Shared {
  readonly counters: Counters
  readonly secretHeaders: ReadonlySet<string>
  readonly cookies: readonly string[]
  readonly queries: readonly string[]
}

/** An exchange as streams see it. One class, no closures: there are as many as connections. */
export class StreamCall implements Call, Waiter {
  readonly x: Exchange
  readonly #shared: Shared
  readonly query: string
  params: Readonly<Record<string, string>> = NO_PARAMS
  #closed: (() => void) | null = null

  constructor(x: Exchange, shared: Shared) {
    this.x = x
    this.#shared = shared
    this.query = shared.queries.reduce(withoutQuery, x.query)
    x.res.waiter = this
  }

  get api(): string {
    return this.x.route.api.id
  }

  get req(): Exchange['req'] {
    return this.x.req
  }

  get res(): Exchange['res'] {
    return this.x.res
  }

  get upgrade(): Exchange['upgrade'] {
    return this.x.upgrade
  }

  get method(): string {
    return this.x.method
  }

  get path(): string {
    return this.x.rest
  }

  get at(): number {
    return this.x.at
  }

  get client(): string {
    return this.x.client
  }

  get bodyLength(): number {
    return this.x.bodyLength
  }

  get key(): string {
    return this.x.key === null ? '' : this.x.key.hash
  }

  get isByCookie(): boolean {
    const { credential } = this.x
    if (credential === null || this.#shared.cookies.length === 0) return false
    // Whatever else it stood in as well: a browser would send the cookie from anywhere.
    return this.x.header('cookie') !== null
  }

  get secretHeaders(): ReadonlySet<string> {
    return this.#shared.secretHeaders
  }

  get isGone(): boolean {
    return this.x.gone
  }

  header(name: string): string | null {
    return this.x.header(name)
  }

  variable(name: string): string {
    if (name.startsWith(PARAMS)) return this.params[name.slice(PARAMS.length)] ?? ''
    // Texts of streams end in messages: no credential may get there.
    return this.#isSecret(name) ? '' : readers(name)(this.x)
  }

  #isSecret(name: string): boolean {
    const { secretHeaders, cookies, queries } = this.#shared
    if (name === TOKEN) return true
    if (name.startsWith(HEADERS)) {
      const header = name.slice(HEADERS.length).replaceAll('_', '-').toLowerCase()
      return header === 'authorization' || header === 'cookie' || secretHeaders.has(header)
    }
    if (name.startsWith(COOKIES)) return cookies.includes(name.slice(COOKIES.length))
    return name.startsWith(QUERY) && queries.includes(name.slice(QUERY.length))
  }

  charge(count: number): number | Promise<number> {
    const { limit } = this.x
    if (limit === null || limit.quota < 0 || count < 1) return Number.POSITIVE_INFINITY
    try {
      const verdict = this.#shared.counters.charge([limit.charges[limit.quota] as Charge], count)
      return verdict instanceof Promise ? verdict.then(leftOf) : leftOf(verdict)
    } catch (cause) {
      // Known to be away, counters refuse without asking.
      return Promise.reject(cause)
    }
  }

  answer(status: number, pairs: string[], body: Buffer | null): void {
    answer(this.x, status, pairs, body)
  }

  refuse(what: No): void {
    refuse(this.x, refusalOf(what))
  }

  head(status: number, pairs: string[]): string[] {
    const { heads } = this.x.route
    for (let i = 0; i < heads.length; i++) heads[i]!(this.x, status, pairs)
    return pairs
  }

  sent(bytes: number): void {
    this.x.bytes += bytes
  }

  onClose(listener: () => void): void {
    this.#closed = listener
  }

  /** The response has closed. */
  closed(): void {
    this.#closed?.()
    this.#closed = null
  }
}

function leftOf({ refused, standings }: Verdict): number {
  return refused < 0 ? standings[0]!.remaining : -1
}

const NO_PARAMS = Object.freeze({})
const PARAMS = 'svc_context.path_params_'
const TOKEN = 'svc_context.token'
const HEADERS = 'svc_context.headers_'
const COOKIES = 'svc_context.cookies_'
const QUERY = 'svc_context.request_data_'

/** Of one API, made at load. */
export function streamCalls({ authentication }: Api, { counters }: Tools): (x: Exchange) => StreamCall {
  const places = schemesOf(authentication).flatMap(({ locations }) => locations)
  const named = (where: string) => places.filter(place => place.in === where).map(({ name }) => name)
  const shared: Shared = {
    counters,
    secretHeaders: new Set(named('header')),
    cookies: named('cookie'),
    queries: named('query')
  }
  return x => new StreamCall(x, shared)
}

/** Refusals of streams that were made already; those made for one request are not kept. */
const made = new WeakMap<No, Refusal>()

function refusalOf(what: No): Refusal {
  const known = made.get(what)
  if (known !== undefined) return known
  const fresh = refusal(what.code, what.status, what.message, what.pairs)
  made.set(what, fresh)
  return fresh
}

/** Names of variables come from documents, yet bounded. */
const MOST_READERS = 10_000
const known = new Map<string, Text>()

function readers(name: string): Text {
  const reader = known.get(name) ?? variable(name)
  if (known.size < MOST_READERS) known.set(name, reader)
  return reader
}
