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
  /** Certificates of the domain: ids of stored ones or PEM files; what TLS listeners show to who asks for it. */
  readonly certificates: readonly string[]
  /** Clients must show one of these certificates (ids, or PEM files), or one that an authority among them signed; null: need not. */
  readonly clientCertificates: readonly string[] | null
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
  /**
   * Alternatives, in the order in which they are tried: each is a list of methods that must all succeed. A list without
   * members lets everybody in; it stands last. Never empty.
   */
  readonly groups: readonly (readonly Scheme[])[]
  /** Where several methods succeed: whose key counts; null: that of the last one. */
  readonly base: SchemeKind | null
  /** The upstream does not get the credential: every location of every scheme is taken out of the request. */
  readonly strip: boolean
  /** How long sessions made from tokens are kept, ms; null: as long as their token counts. */
  readonly lifetime: { readonly ms: number; readonly respectsValidity: boolean } | null
  /** Told to clients without a token (RFC 9728); null: nothing. */
  readonly metadata: ResourceMetadata | null
}

export type SchemeKind = Scheme['kind']
export type Scheme =
  | TokenScheme
  | BasicScheme
  | JwtScheme
  | IntrospectionScheme
  | HmacScheme
  | MessageSignatureScheme
  | CertificateScheme

interface Located {
  /** Where the credential may stand, in reading order; a later one that is not empty wins (semantics §6.3). Never empty. */
  readonly locations: readonly TokenLocation[]
}

export interface TokenScheme extends Located {
  readonly kind: 'token'
  /** Requests without a token are known by their client certificate. */
  readonly takesCertificate: boolean
  readonly signature: TokenSignature | null
}

/** A signature beside the token: `hash(token + secret + Unix seconds)`, hexadecimal (semantics §6.3). */
export interface TokenSignature {
  readonly hash: 'sha256' | 'md5'
  readonly locations: readonly TokenLocation[]
  /** May hold variables. */
  readonly secret: string
  readonly skewS: number
  readonly status: number
  readonly message: string
}

export interface BasicScheme extends Located {
  readonly kind: 'basic'
  /** How long a verified password is remembered, ms; 0: not at all. */
  readonly rememberMs: number
  /** The credentials stand in the body; the first group of each expression is the value. Null: they do not. */
  readonly body: { readonly user: SafeExpression; readonly password: SafeExpression } | null
}

/** A regular expression that takes linear time (RE2). */
export interface SafeExpression {
  readonly groups: number
  /** Its first group in a text; null: it does not match. */
  first(text: string): string | null
}

/** Where the keys of signatures come from. */
export type KeySource =
  /** JWKS addresses; all of them count. `cacheMs` 0: as the settings say. */
  | { readonly is: 'sets'; readonly sets: readonly { readonly url: string; readonly cacheMs: number }[] }
  /** A public key or certificate in PEM. */
  | { readonly is: 'pem'; readonly pem: string }
  | { readonly is: 'secret'; readonly secret: Buffer }
  /** The secret of the key that the token names: `jwt_data.secret`. */
  | { readonly is: 'key' }

export type Family = 'hmac' | 'rsa' | 'ecdsa' | 'eddsa'

/** By how much times of a token may be off, in seconds. */
export interface Skews {
  readonly issuedAt: number
  readonly notBefore: number
  readonly expires: number
}

export interface JwtScheme extends Located {
  readonly kind: 'jwt'
  /** It is an access token of an external OAuth server: other refusals, no scopes (semantics §6.8). */
  readonly external: boolean
  readonly family: Family
  readonly keys: KeySource
  readonly skews: Skews
  readonly skipKid: boolean
  /** Paths of claims that name the caller, the first that is there counts; each a list of member names. */
  readonly subject: readonly Claim[]
  readonly policy: readonly Claim[]
  /** Null: not looked at. */
  readonly client: Claim | null
  readonly defaultPolicies: readonly string[]
  readonly scopeClaims: readonly Claim[]
  /** Empty: scopes are not looked at. */
  readonly scopePolicies: ReadonlyMap<string, readonly string[]>
  /** Empty: any. */
  readonly issuers: readonly string[]
  readonly audiences: readonly string[]
  readonly subjects: readonly string[]
  readonly needsJti: boolean
  readonly custom: readonly CustomClaim[]
}

/** A claim by its name, or by a dotted path where no claim has that name. */
export interface Claim {
  readonly name: string
  readonly path: readonly string[]
}

export interface CustomClaim {
  readonly claim: Claim
  readonly type: 'required' | 'exact_match' | 'contains'
  readonly allowed: readonly unknown[]
  readonly nonBlocking: boolean
}

export interface IntrospectionScheme extends Located {
  readonly kind: 'introspection'
  readonly url: string
  readonly clientId: string
  readonly clientSecret: string
  readonly subject: Claim
  /** How long an answer counts, ms; 0: asked each time. */
  readonly cacheMs: number
  readonly defaultPolicies: readonly string[]
}

export interface HmacScheme extends Located {
  readonly kind: 'hmac'
  /** Empty: all. */
  readonly algorithms: readonly string[]
  /** 0: `Date` is not looked at. */
  readonly skewMs: number
}

export interface MessageSignatureScheme {
  readonly kind: 'message-signature'
  readonly locations: readonly []
  /** Empty: all. */
  readonly algorithms: readonly string[]
  readonly required: readonly string[]
  readonly skewS: number
  /** 0: any age. */
  readonly maxAgeS: number
}

export interface CertificateScheme {
  readonly kind: 'certificate'
  readonly locations: readonly []
}

export interface ResourceMetadata {
  /** Below the listen path, without a slash before it. */
  readonly wellKnownPath: string
  /** '': the address of the API. */
  readonly resource: string
  readonly authorizationServers: readonly string[]
  readonly scopes: readonly string[]
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
  readonly tls: UpstreamTls
}

/** How `https` targets are spoken to. */
export interface UpstreamTls {
  /** HTTP/2 where the target speaks it; null: as the gateway's settings say. */
  readonly http2: boolean | null
  /** Certificates that the gateway shows, by domain. */
  readonly certificates: readonly ForDomain<string>[]
  /** Public keys of which the target must have one, by domain: ids of stored keys, or `sha256/…` of the SPKI. */
  readonly pins: readonly ForDomain<readonly string[]>[]
  /** Certificates of targets are not verified. */
  readonly insecure: boolean
  /** OpenSSL names; '': the usual ones. */
  readonly ciphers: string
  /** Null: as the gateway's. */
  readonly minVersion: TlsVersion | null
  readonly maxVersion: TlsVersion | null
  /** The common name must be the name of the host as well, also where nothing else is verified. */
  readonly checksCommonName: boolean
}

export type TlsVersion = 'TLSv1' | 'TLSv1.1' | 'TLSv1.2' | 'TLSv1.3'

export interface ForDomain<T> {
  /** Lower case: a host, a host with port, `*.domain`, or `*`. */
  readonly domain: string
  readonly value: T
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
