import Type, { type Static, type TSchema } from 'typebox'
import { Authentication, ClientCertificates, schemeShapes } from './authentication.ts'
import { countersFailures, countersFailureText, Id, rateLimitModes, rateLimitModeText } from './limit.ts'

/**
 * The extension `x-svc-api-gateway` of an OpenAPI document. Strict: what is not here is refused, and what is here acts
 * in the gateway. Rules across members are in `gateway/apis.ts`. Members with a default may be left out.
 */

const strict = { additionalProperties: false } as const
const Flag = (description: string) => Type.Boolean({ default: false, description })
const Enabled = Type.Boolean({ description: 'Off: as if the block were absent' })
const Switch = (description: string) => Type.Optional(Type.Object({ enabled: Enabled }, { ...strict, description }))
const Word = (description: string, maxLength = 1024) => Type.String({ default: '', maxLength, description })

/** Semantics §3, plain durations: hours, minutes, seconds. */
const Duration = (description: string) =>
  Type.String({ pattern: '^(\\d{1,9}h)?(\\d{1,9}m)?(\\d{1,9}s)?$', description, example: '1h30m10s' })
/** Semantics §3, fractional durations: minutes, seconds, milliseconds. */
const FractionalDuration = (description: string) =>
  Type.String({
    pattern: '^(\\d{1,9}(\\.\\d{1,9})?m)?(\\d{1,9}(\\.\\d{1,9})?s)?(\\d{1,9}(\\.\\d{1,9})?ms)?$',
    description,
    example: '1.5s'
  })

// RFC 9110 §5.1 token, and what may stand in a field value: no line ends, no NUL.
export const TOKEN = "^[!#$%&'*+.^_`|~0-9A-Za-z-]+$"
const HeaderName = Type.String({ pattern: TOKEN, maxLength: 256 })
const HeaderValue = Type.String({ pattern: '^[\\t\\x20-\\x7e\\x80-\\xff]*$', maxLength: 8192 })
const Names = (description: string) => Type.Array(HeaderName, { default: [], maxItems: 1000, description })
const Texts = (description: string) =>
  Type.Array(Type.String({ maxLength: 2048 }), { default: [], maxItems: 1000, description })

const HeaderEdits = (description: string) =>
  Type.Optional(
    Type.Object(
      {
        enabled: Enabled,
        remove: Names('Header names, any case; removed first'),
        add: Type.Array(Type.Object({ name: HeaderName, value: HeaderValue }, strict), {
          default: [],
          maxItems: 1000,
          description: 'Each replaces the headers of its name'
        })
      },
      { ...strict, description }
    )
  )

const SizeLimit = Type.Optional(
  Type.Object(
    {
      enabled: Enabled,
      value: Type.Integer({
        minimum: 0,
        maximum: Number.MAX_SAFE_INTEGER,
        unit: 'bytes',
        description: 'Longest request body'
      })
    },
    { ...strict, description: 'Looks at the length that the head states (semantics §3.7)' }
  )
)

const RateLimit = (description: string) =>
  Type.Optional(
    Type.Object(
      {
        enabled: Enabled,
        rate: Type.Number({ minimum: 0, maximum: Number.MAX_SAFE_INTEGER, description: 'Requests a window' }),
        per: Duration('The window')
      },
      { ...strict, description }
    )
  )

const EndpointRule = (description: string) =>
  Type.Optional(
    Type.Object(
      { enabled: Enabled, ignoreCase: Flag('The operation matches its path in any case') },
      { ...strict, description }
    )
  )

const OperationExtension = Type.Object(
  {
    allow: EndpointRule('One enabled anywhere: only such operations are let through'),
    block: EndpointRule('Refused with 403'),
    ignoreAuthentication: EndpointRule('No credential, no access right, no key limits'),
    requestSizeLimit: SizeLimit,
    rateLimit: RateLimit('Takes the place of the API limit for this operation'),
    enforceTimeout: Type.Optional(
      Type.Object(
        {
          enabled: Enabled,
          value: Type.Optional(Type.Number({ minimum: 0, maximum: 2_000_000, unit: 's', description: 'Seconds' })),
          duration: Type.Optional(FractionalDuration('Instead of value'))
        },
        { ...strict, description: 'Longest wait for the head of an upstream answer; beats the one of the API' }
      )
    ),
    validateRequest: Type.Optional(
      Type.Object(
        {
          enabled: Enabled,
          errorResponseCode: Type.Integer({
            default: 422,
            minimum: 400,
            maximum: 599,
            description: 'Status of the refusal'
          })
        },
        { ...strict, description: 'Parameters and JSON bodies are held to the document' }
      )
    ),
    mockResponse: Type.Optional(
      Type.Object(
        {
          enabled: Enabled,
          code: Type.Integer({ default: 200, minimum: 200, maximum: 599, description: 'Status' }),
          body: Word('Goes out as it is', 1_000_000),
          headers: Type.Array(Type.Object({ name: HeaderName, value: HeaderValue }, strict), {
            default: [],
            maxItems: 1000
          }),
          fromOASExamples: Type.Optional(
            Type.Object(
              {
                enabled: Enabled,
                code: Type.Optional(Type.Integer({ minimum: 200, maximum: 599, description: 'Empty: 200' })),
                contentType: Word('Empty: application/json', 256),
                exampleName: Word('Empty: the first by name', 256)
              },
              { ...strict, description: "Instead of code, body and headers: the document's own examples" }
            )
          )
        },
        { ...strict, description: 'The gateway answers in place of the upstream' }
      )
    ),
    transformRequestHeaders: HeaderEdits('After those of the API'),
    transformResponseHeaders: HeaderEdits('After those of the API')
  },
  strict
)

const Info = Type.Object(
  {
    id: Type.Optional(Id),
    dbId: Word('Database id', 256),
    orgId: Type.String({ default: 'default', minLength: 1, maxLength: 256, description: 'Owner organisation' }),
    name: Type.String({ pattern: '\\S', maxLength: 1024, description: 'Display name' }),
    expiration: Type.String({
      default: '',
      pattern: '^(\\d{4}-\\d{2}-\\d{2} \\d{2}:\\d{2})?$',
      description: 'UTC, `YYYY-MM-DD HH:MM`: from then on requests are refused'
    }),
    state: Type.Object(
      { active: Type.Boolean({ description: 'False: kept, not routed' }), internal: Flag('No route from outside') },
      strict
    )
  },
  strict
)

const Server = Type.Object(
  {
    listenPath: Type.Object(
      {
        value: Type.String({
          pattern: '^/',
          maxLength: 1024,
          description:
            'Base path; `{name}` stands for one segment. `/app` and `/app/` are the same: both take `/app` and all below `/app/`'
        }),
        strip: Flag('The upstream gets the path without it')
      },
      strict
    ),
    slug: Word('Display slug'),
    customDomain: Type.Optional(
      Type.Object(
        {
          enabled: Enabled,
          name: Type.String({ maxLength: 253, description: 'Host name without port' }),
          certificates: Texts('Ids of stored certificates with their private keys, or PEM files, for TLS listeners')
        },
        strict
      )
    ),
    clientCertificates: Type.Optional(ClientCertificates),
    authentication: Type.Optional(Authentication),
    ipAccessControl: Type.Optional(
      Type.Object(
        {
          enabled: Enabled,
          allow: Texts('Addresses and CIDRs; any entry: all others are refused'),
          block: Texts('Addresses and CIDRs')
        },
        strict
      )
    )
  },
  strict
)

const TargetUrl = (description: string) => Type.String({ minLength: 1, maxLength: 2048, description })

/** Version of TLS, as semantics §3.4 writes it. */
const TlsVersion = (description: string) => Type.Optional(Type.Enum(['1.0', '1.1', '1.2', '1.3'], { description }))
const Domain = Type.String({
  minLength: 1,
  maxLength: 260,
  description: 'Host, host with port, `*.domain`, or `*`; the closest counts'
})

const Upstream = Type.Object(
  {
    mutualTLS: Type.Optional(
      Type.Object(
        {
          enabled: Enabled,
          domainToCertificateMapping: Type.Array(
            Type.Object({ domain: Domain, certificate: Type.String({ minLength: 1, maxLength: 1024 }) }, strict),
            {
              default: [],
              maxItems: 1000,
              description: 'Ids of stored certificates with their private keys, or PEM files'
            }
          )
        },
        { ...strict, description: 'Certificates that the gateway shows to the upstream' }
      )
    ),
    certificatePinning: Type.Optional(
      Type.Object(
        {
          enabled: Enabled,
          domainToPublicKeysMapping: Type.Array(
            Type.Object(
              {
                domain: Domain,
                publicKeys: Type.Array(Type.String({ minLength: 1, maxLength: 1024 }), {
                  minItems: 1,
                  maxItems: 100,
                  description: "Ids of stored keys or certificates, or `sha256/<base64 of the SPKI's hash>`"
                })
              },
              strict
            ),
            { default: [], maxItems: 1000 }
          )
        },
        { ...strict, description: 'Only upstreams with one of these public keys are spoken to' }
      )
    ),
    tlsTransport: Type.Optional(
      Type.Object(
        {
          insecureSkipVerify: Flag('Certificates of upstreams are not verified'),
          ciphers: Type.Array(Type.String({ pattern: '^[A-Za-z0-9_+-]{1,64}$' }), {
            default: [],
            maxItems: 100,
            description: 'Names of OpenSSL or of the standards; empty: the usual ones'
          }),
          minVersion: TlsVersion('Oldest version of TLS'),
          maxVersion: TlsVersion('Newest version of TLS'),
          forceCommonNameCheck: Flag(
            'The common name of the certificate must be the name of the host as well (or a wildcard of one label); with insecureSkipVerify it is all that is looked at. Without this it counts only where the certificate names no host otherwise'
          )
        },
        { ...strict, description: 'How https upstreams are spoken to' }
      )
    ),
    http2: Switch('HTTP/2 to https upstreams that speak it; without it, as `gateway.proxy_enable_http2` says'),
    url: Type.Optional(
      Type.String({
        maxLength: 2048,
        description: 'http or https address, or `svc://echo`; empty in streaming APIs alone'
      })
    ),
    rateLimit: RateLimit('Of the whole API, over all keys'),
    preserveHostHeader: Switch('The upstream gets the Host of the client'),
    preserveTrailingSlash: Switch('A slash at the end of the path reaches the upstream'),
    enforceTimeout: Type.Optional(
      Type.Object(
        {
          enabled: Enabled,
          duration: Type.Optional(FractionalDuration('Longest wait for the head of an upstream answer'))
        },
        strict
      )
    ),
    loadBalancing: Type.Optional(
      Type.Object(
        {
          enabled: Enabled,
          skipUnavailableHosts: Type.Boolean({
            default: true,
            description: 'A target that cannot be reached is left out for 10 s'
          }),
          targets: Type.Array(
            Type.Object(
              {
                url: TargetUrl('http or https address'),
                weight: Type.Integer({ minimum: 0, maximum: 1000, description: 'Shares; 0: none' })
              },
              strict
            ),
            { default: [], maxItems: 1000 }
          )
        },
        { ...strict, description: 'Instead of url' }
      )
    )
  },
  strict
)

const Global = Type.Object(
  {
    cors: Type.Optional(
      Type.Object(
        {
          enabled: Enabled,
          allowedOrigins: Texts('`*`, or origins with at most one `*`; empty: any'),
          allowedMethods: Texts('Empty: GET, POST, HEAD'),
          allowedHeaders: Texts('Request headers; `*`: any'),
          exposedHeaders: Names('Response headers that scripts may read'),
          allowCredentials: Flag('Credentials may come along'),
          maxAge: Type.Integer({
            default: 0,
            minimum: 0,
            maximum: 2_147_483_647,
            unit: 's',
            description: 'How long a preflight answer holds; 0: unsaid'
          }),
          optionsPassthrough: Flag('OPTIONS goes to the upstream past every other step'),
          debug: Flag('Refusals of origins and preflights go to the log')
        },
        strict
      )
    ),
    transformRequestHeaders: HeaderEdits('Before the upstream is called'),
    transformResponseHeaders: HeaderEdits('Before the client is answered'),
    ignoreCase: Switch('Paths of operations match in any case'),
    requestSizeLimit: SizeLimit,
    skipRateLimit: Flag('Rates of keys do not count here'),
    skipQuota: Flag('Quotas of keys do not count here'),
    rateLimitMode: Type.Optional(Type.Enum(rateLimitModes, { description: rateLimitModeText })),
    countersFailure: Type.Optional(Type.Enum(countersFailures, { description: countersFailureText })),
    skipQuotaReset: Flag('Creating or changing a key leaves its quota as it stands')
  },
  { ...strict, default: {} }
)

export const Extension = Type.Object(
  {
    info: Info,
    server: Server,
    upstream: Upstream,
    middleware: Type.Object(
      {
        global: Global,
        operations: Type.Record(Type.String(), OperationExtension, { default: {}, description: 'By operationId' })
      },
      { ...strict, default: {} }
    )
  },
  { ...strict, title: 'x-svc-api-gateway' }
)
/** With its defaults filled in. */
export type Extension = Static<typeof Extension>
export type OperationExtension = Static<typeof OperationExtension>
export type HeaderEditsExtension = NonNullable<OperationExtension['transformRequestHeaders']>

/**
 * The extension's JSON Schema as writers of documents need it: a member with a default need not be written, and a scheme is one
 * of the kinds.
 */
export function extensionSchema(): unknown {
  const schema = structuredClone(Extension)
  const { authentication } = schema.properties.server.properties
  const names = authentication.properties.securitySchemes
  const kinds = { anyOf: schemeShapes.map(shape => structuredClone(shape)), description: 'By its type in OpenAPI' }
  for (const pattern of Object.keys(names.patternProperties))
    Object.assign(names.patternProperties, { [pattern]: kinds })
  return {
    $schema: 'https://json-schema.org/draft/2020-12/schema',
    ...(optional(schema) as object)
  }
}

function optional(schema: unknown): unknown {
  if (Array.isArray(schema)) return schema.map(optional)
  if (typeof schema !== 'object' || schema === null) return schema
  const out: Record<string, unknown> = {}
  for (const [name, value] of Object.entries(schema)) out[name] = optional(value)
  const properties = out.properties as Record<string, TSchema & { default?: unknown }> | undefined
  if (properties && Array.isArray(out.required)) {
    out.required = out.required.filter((name: string) => properties[name]?.default === undefined)
    if ((out.required as string[]).length === 0) delete out.required
  }
  return out
}
