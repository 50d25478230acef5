import type { CountersFailure, RateLimitMode } from '../config/shape/limit.ts'
import type { StreamPlan } from '../streams/plan.ts'

export const EXTENSION = 'x-svc-api-gateway'

/** The compiled reading of one API document: plain values, never changed, nothing to check again. */
export interface Api {
  readonly id: string
  readonly orgId: string
  readonly name: string
  readonly dbId: string
  readonly slug: string
  /** False: kept, not routed. */
  readonly active: boolean
  /** True: no route from outside. */
  readonly internal: boolean
  /** Milliseconds since the epoch from which on it is expired; Infinity: never. */
  readonly expires: number
  /** Lower case, without port; '' for any host. */
  readonly domain: string
  /** In normal form, without the slash at its end; '' for the root. Takes this path itself and all below it. */
  readonly listenPath: string
  /** Its segments; null stands for a placeholder, which takes any one segment. */
  readonly listenSegments: readonly (string | null)[]
  readonly strip: boolean
  /** Null: keyless. */
  readonly authentication: Authentication | null
  /** Null: no look at addresses. */
  readonly addresses: Addresses | null
  readonly upstream: Upstream
  /** Limit over all keys. */
  readonly rate: Rate | null
  readonly cors: Cors | null
  /** Longest request body in bytes that a head may state. */
  readonly sizeLimit: number | null
  readonly skipRateLimit: boolean
  readonly skipQuota: boolean
  readonly skipQuotaReset: boolean
  /** Null: as the gateway's settings say. */
  readonly rateLimitMode: RateLimitMode | null
  readonly countersFailure: CountersFailure | null
  readonly requestHeaders: HeaderEdits | null
  readonly responseHeaders: HeaderEdits | null
  /** Paths match in any case: those of operations and those in the rights of keys. */
  readonly ignoreCase: boolean
  /** Some operation is allowed, so the others are not. */
  readonly allowList: boolean
  /** All operations of the document in order of precedence; empty when the extension says nothing about any. */
  readonly operations: readonly Operation[]
  /**
   * The operation that a request is: the first whose method and path match, or null. `path`: behind the listen path, in
   * normal form (`normalPath`), beginning with `/`; null at once when there are no operations.
   */
  readonly operation: (method: string, path: string) => Operation | null
  /** Null: no streaming API. */
  readonly streams: readonly StreamPlan[] | null
  /** As it was given, for readers of documents; frozen by agreement. */
  readonly document: ApiDocument
  /** `store`, or the file that it was read from. */
  readonly source: string
}

export type ApiDocument = Readonly<Record<string, unknown>>

export interface Authentication {
  /** Where a token may stand, in reading order; a later one that is not empty wins (semantics §6.3). Never empty. */
  readonly locations: readonly TokenLocation[]
  /** The upstream does not get the credential: every location is taken out of the request. */
  readonly strip: boolean
}

export interface TokenLocation {
  readonly in: 'header' | 'query' | 'cookie'
  /** Of a header: lower case. */
  readonly name: string
}

/** Addresses and CIDRs as written, each checked. */
export interface Addresses {
  /** Empty: every address that is not blocked. */
  readonly allow: readonly string[]
  readonly block: readonly string[]
}

export interface Target {
  readonly url: string
  /** `svc:` is the built-in upstream `svc://echo`. */
  readonly protocol: 'http:' | 'https:' | 'svc:'
  /** As it stands in a Host header. */
  readonly host: string
  readonly hostname: string
  readonly port: number
  /** Begins with `/` or is empty; never ends with `/`. */
  readonly path: string
  /** Shares in the round; at least 1. */
  readonly weight: number
}

export interface Upstream {
  /** At least one. Several, or one with `balanced`: load balancing. */
  readonly targets: readonly Target[]
  readonly balanced: boolean
  readonly skipUnavailable: boolean
  readonly preserveHost: boolean
  readonly preserveTrailingSlash: boolean
  /** Longest wait for the head of an answer; null: the gateway's own. */
  readonly timeoutMs: number | null
}

export interface Rate {
  /** Requests a window; above 0, may be a fraction. */
  readonly rate: number
  readonly perMs: number
}

export interface HeaderEdits {
  /** Lower case. */
  readonly remove: readonly string[]
  /** In the order given; names as written. Each replaces what is there under its name. */
  readonly add: readonly { readonly name: string; readonly value: string }[]
}

export interface Cors {
  readonly allowedOrigins: readonly string[]
  readonly allowedMethods: readonly string[]
  readonly allowedHeaders: readonly string[]
  readonly exposedHeaders: readonly string[]
  readonly allowCredentials: boolean
  /** Seconds; 0: unsaid. */
  readonly maxAge: number
  readonly optionsPassthrough: boolean
  readonly debug: boolean
}

/** What the extension says about one operation; null and false: nothing. */
export interface Operation {
  /** Its operationId; '' when it has none. */
  readonly id: string
  /** Upper case. */
  readonly method: string
  /** As the document writes it. */
  readonly path: string
  readonly matches: (path: string) => boolean
  /**
   * Those of its method whose paths differ in the names of parameters alone, itself included, the strictest first; the
   * parameters decide between them. Empty: there are none, or none is checked.
   */
  readonly rivals: readonly Operation[]
  readonly allow: boolean
  readonly block: boolean
  readonly ignoreAuthentication: boolean
  readonly sizeLimit: number | null
  /** Takes the place of the API's. */
  readonly rate: Rate | null
  /** Takes the place of the API's. */
  readonly timeoutMs: number | null
  /** After the API's. */
  readonly requestHeaders: HeaderEdits | null
  readonly responseHeaders: HeaderEdits | null
  /** Requests are held to the document. */
  readonly requestCheck: RequestCheck | null
  /** The gateway answers in the upstream's place. */
  readonly mock: Mock | null
}

/** The head of a request, as far as documents speak about it. */
export interface CheckedHead {
  /** As the client wrote it, dot segments resolved, without the listen path. */
  readonly path: string
  /** '' or from the question mark on. */
  readonly query: string
  /** Raw pairs. */
  readonly pairs: readonly string[]
  /** 0: no body; -1: unknown. */
  readonly bodyLength: number
}

/** Why a request does not fit its operation. */
export interface Misfit {
  readonly place: 'path' | 'query' | 'header' | 'cookie' | 'body'
  /** One sentence that names the place. */
  readonly detail: string
}

export interface BodyCheck {
  /** Null: it fits. */
  readonly misfit: (body: Buffer) => Misfit | null
}

/** What the document says about the requests of one operation. */
export interface RequestCheck {
  /** Of the refusal. */
  readonly status: number
  /** How much the parameters of the path keep out. */
  readonly strictness: number
  /** Whether the parameters of the path fit. */
  takesPath(path: string): boolean
  /** The parameters; null: they fit. */
  head(head: CheckedHead): Misfit | null
  /** The head of the body; null: its content is not looked at. */
  body(head: CheckedHead): Misfit | BodyCheck | null
}

/** An answer that the gateway gives itself. */
export interface MockAnswer {
  readonly status: number
  /** Raw pairs, with `Content-Type`, without `Content-Length`. */
  readonly pairs: readonly string[]
  readonly body: Buffer | null
}

/** What a request may ask of a mock: values of its headers, null where they are absent. */
export interface MockAsked {
  readonly code: string | null
  readonly accept: string | null
  readonly name: string | null
}

/** The text: why there is none. */
export type Mock = (asked: MockAsked) => MockAnswer | string

/** What the reading of a document needs beside it. */
