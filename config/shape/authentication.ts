import Type, { type Static } from 'typebox'

/**
 * `server.authentication` of the extension (semantics §3.3). The members of a scheme depend on its kind, which the
 * OpenAPI scheme of its name tells; `gateway/documents/readScheme.ts` holds each against its shape here.
 */

const strict = { additionalProperties: false } as const
const Flag = (description: string) => Type.Boolean({ default: false, description })
const Enabled = Type.Boolean({ description: 'Off: as if the block were absent' })
const Word = (description: string, maxLength = 1024) => Type.String({ default: '', maxLength, description })
const Texts = (description: string) =>
  Type.Array(Type.String({ minLength: 1, maxLength: 1024 }), { default: [], maxItems: 1000, description })
const Seconds = (description: string, initial: number, maximum = 31_536_000) =>
  Type.Number({ default: initial, minimum: 0, maximum, unit: 's', description })
const Address = (description: string) => Type.String({ minLength: 1, maxLength: 2048, description })
/** A bounded subset of regular expressions: RE2. */
const Expression = (description: string) => Type.String({ default: '', maxLength: 1024, description })

const Location = (description: string) =>
  Type.Optional(
    Type.Object(
      {
        enabled: Enabled,
        name: Word(
          'Empty: the name of the scheme or of its header, else Authorization. A header of a scheme other than apiKey with a name stands instead of Authorization',
          256
        )
      },
      { ...strict, description }
    )
  )

const sources = {
  header: Location('A request header'),
  query: Location('A query parameter'),
  cookie: Location('A cookie')
}

export const TokenScheme = Type.Object(
  {
    enabled: Enabled,
    ...sources,
    enableClientCertificate: Flag(
      'Keys are also made from client certificates: a request without a token is known by its certificate'
    ),
    signatureValidation: Type.Optional(
      Type.Object(
        {
          enabled: Enabled,
          algorithm: Type.Enum(['MasherySHA256', 'MasheryMD5'], { description: 'Hash of token, secret and Unix time' }),
          header: Word('Header that holds the signature', 256),
          query: Location('A query parameter that holds the signature'),
          secret: Word('May hold `$svc_meta.NAME`'),
          allowedClockSkew: Seconds('Accepted on both sides of now', 0, 86_400),
          errorCode: Type.Integer({ default: 401, minimum: 400, maximum: 599, description: 'Status of the refusal' }),
          errorMessage: Word('Text of the refusal; empty: Request signature verification failed')
        },
        { ...strict, description: 'Tokens must come with a signature' }
      )
    )
  },
  {
    ...strict,
    title: 'Access token',
    description: 'An access token; the OpenAPI scheme (type apiKey) names its first location'
  }
)
export type TokenScheme = Static<typeof TokenScheme>

export const BasicScheme = Type.Object(
  {
    enabled: Enabled,
    ...sources,
    disableCaching: Flag('A verified password is not remembered'),
    cacheTTL: Type.Integer({
      default: 60,
      minimum: 1,
      maximum: 86_400,
      unit: 's',
      description: 'How long a verified password is remembered'
    }),
    extractCredentialsFromBody: Type.Optional(
      Type.Object(
        {
          enabled: Enabled,
          userRegexp: Expression(
            'RE2 expression; its first group is the user name. The more it holds, the less of the body it sees: 20 instructions see 65,536 characters'
          ),
          passwordRegexp: Expression('RE2 expression; its first group is the password')
        },
        { ...strict, description: 'The credentials stand in the body instead of a header' }
      )
    )
  },
  {
    ...strict,
    title: 'Basic',
    description: 'User name and password (RFC 7617); the OpenAPI scheme is of type http, scheme basic'
  }
)
export type BasicScheme = Static<typeof BasicScheme>

export const signingMethods = ['hmac', 'rsa', 'ecdsa', 'eddsa'] as const

const skews = {
  issuedAtValidationSkew: Seconds('By how much `iat` may lie in the future', 0),
  notBeforeValidationSkew: Seconds('By how much `nbf` may lie in the future', 0),
  expiresAtValidationSkew: Seconds('By how much `exp` may lie in the past', 0)
}

const ScopeMapping = Type.Array(
  Type.Object(
    { scope: Type.String({ minLength: 1, maxLength: 1024 }), policyId: Type.String({ minLength: 1, maxLength: 256 }) },
    strict
  ),
  { default: [], maxItems: 1000, description: 'Policies that scopes stand for' }
)

export const JwtScheme = Type.Object(
  {
    enabled: Enabled,
    ...sources,
    source: Word(
      'Key material, where jwksURIs is empty: an address of a JWKS, a PEM, a secret; or one of them in base64, which whatever can be read as base64 is. Empty: the secret of the key that the token names (`jwt_data.secret`)',
      16_384
    ),
    signingMethod: Type.Enum(signingMethods, {
      default: 'hmac',
      description: 'Family of algorithms that tokens must be signed with'
    }),
    jwksURIs: Type.Array(
      Type.Object(
        { url: Address('Of a JWKS (RFC 7517)'), cacheTimeout: Seconds('0: as `gateway.jwks.cache.timeout`', 0) },
        strict
      ),
      { default: [], maxItems: 20, description: 'Key sets; all of them count' }
    ),
    skipKid: Flag('The header `kid` is never the identity'),
    identityBaseField: Word(
      'Claim that names the caller; dots lead into nested claims. subjectClaims go before it',
      256
    ),
    subjectClaims: Texts('Claims that name the caller, the first that is there counts; dots lead into nested claims'),
    policyFieldName: Word('Claim that names the policy; basePolicyClaims go before it', 256),
    basePolicyClaims: Texts('Claims that name the policy, the first that is there counts'),
    clientBaseField: Word('Claim that names the client (`azp`, `client_id`), whose key gives the policies', 256),
    idpClientIdMappingDisabled: Flag('clientBaseField is not looked at'),
    defaultPolicies: Texts('Policies of tokens that name none'),
    scopes: Type.Optional(
      Type.Object(
        {
          claimName: Word('Claim with the scopes; claims go before it. Empty: scope', 256),
          claims: Texts('Claims with the scopes, the first that is there counts'),
          scopeToPolicyMapping: ScopeMapping
        },
        strict
      )
    ),
    ...skews,
    allowedIssuers: Texts('Empty: any `iss`'),
    allowedAudiences: Texts('Empty: any `aud`; one of them is enough'),
    allowedSubjects: Texts('Empty: any subject'),
    jtiValidation: Type.Optional(Type.Object({ enabled: Enabled }, { ...strict, description: '`jti` must be there' })),
    customClaimValidation: Type.Record(
      Type.String(),
      Type.Object(
        {
          type: Type.Enum(['required', 'exact_match', 'contains']),
          allowedValues: Type.Array(Type.Unknown(), { default: [], maxItems: 1000 }),
          nonBlocking: Flag('A failure stands in the log alone')
        },
        strict
      ),
      { default: {}, maxProperties: 100, description: 'By claim; dots lead into nested claims' }
    )
  },
  {
    ...strict,
    title: 'JSON Web Token',
    description: 'JSON Web Tokens; the OpenAPI scheme is of type http, scheme bearer, or openIdConnect'
  }
)
export type JwtScheme = Static<typeof JwtScheme>

export const ExternalOAuthScheme = Type.Object(
  {
    enabled: Enabled,
    ...sources,
    providers: Type.Array(
      Type.Object(
        {
          jwt: Type.Optional(
            Type.Object(
              {
                enabled: Enabled,
                signingMethod: Type.Enum(signingMethods),
                source: Type.String({ minLength: 1, maxLength: 16_384, description: 'As that of a JWT scheme' }),
                identityBaseField: Word('Empty: sub', 256),
                ...skews
              },
              { ...strict, description: 'Access tokens are JWTs' }
            )
          ),
          introspection: Type.Optional(
            Type.Object(
              {
                enabled: Enabled,
                url: Address('Of the introspection (RFC 7662)'),
                clientId: Word('Sent with each question'),
                clientSecret: Word('Sent with each question'),
                identityBaseField: Word('Empty: sub', 256),
                cache: Type.Optional(
                  Type.Object(
                    {
                      enabled: Enabled,
                      timeout: Seconds('How long an answer counts; never longer than its `exp`', 60)
                    },
                    strict
                  )
                )
              },
              { ...strict, description: 'Access tokens are asked about' }
            )
          )
        },
        strict
      ),
      { minItems: 1, maxItems: 1, description: 'One of jwt and introspection is enabled' }
    ),
    defaultPolicies: Texts('Policies of callers for whom no key is stored')
  },
  {
    ...strict,
    title: 'External OAuth',
    description: 'Tokens of another authorization server; the OpenAPI scheme is of type oauth2'
  }
)
export type ExternalOAuthScheme = Static<typeof ExternalOAuthScheme>

export const CertificateScheme = Type.Object(
  { enabled: Enabled },
  {
    ...strict,
    title: 'Client certificate',
    description: 'The key made from the client certificate; the OpenAPI scheme is of type mutualTLS'
  }
)
export type CertificateScheme = Static<typeof CertificateScheme>

/** What a member of `securitySchemes` may be; each has what its kind has. */
export const schemeShapes = [TokenScheme, BasicScheme, JwtScheme, ExternalOAuthScheme, CertificateScheme] as const

const signatureAlgorithms = ['hmac-sha1', 'hmac-sha256', 'hmac-sha384', 'hmac-sha512', 'rsa-sha256'] as const
/** Of RFC 9421 §3.3 those whose keys a key of ours can name. */
const messageAlgorithms = [
  'hmac-sha256',
  'rsa-v1_5-sha256',
  'rsa-pss-sha512',
  'ecdsa-p256-sha256',
  'ecdsa-p384-sha384',
  'ed25519'
] as const

const Hmac = Type.Object(
  {
    enabled: Enabled,
    ...sources,
    allowedAlgorithms: Type.Array(Type.Enum(signatureAlgorithms), {
      default: [],
      maxItems: 10,
      description: 'Empty: all'
    }),
    allowedClockSkew: Type.Number({
      default: 0,
      maximum: 2 ** 31,
      unit: 'ms',
      description: 'How far Date may be from now; 0 or less: it is not looked at'
    })
  },
  { ...strict, description: 'Signed requests: `Authorization: Signature keyId="…"…` (draft-cavage-http-signatures)' }
)

const MessageSignatures = Type.Object(
  {
    enabled: Enabled,
    allowedAlgorithms: Type.Array(Type.Enum(messageAlgorithms), {
      default: [],
      maxItems: 10,
      description: 'Empty: all'
    }),
    requiredComponents: Type.Array(Type.String({ minLength: 1, maxLength: 256 }), {
      default: ['@method', '@target-uri'],
      maxItems: 50,
      description: 'Components that a signature must cover; `content-digest` is checked against the body where covered'
    }),
    allowedClockSkew: Seconds('By how much `created` may lie in the future and `expires` in the past', 30, 86_400),
    maxAge: Seconds('How old `created` may be; 0: any age', 300)
  },
  { ...strict, description: 'HTTP Message Signatures (RFC 9421)' }
)

export const Authentication = Type.Object(
  {
    enabled: Type.Boolean({ description: 'False: keyless' }),
    stripAuthorizationData: Flag('The upstream does not get the credential, nor a signature beside it'),
    baseIdentityProvider: Type.Enum(['', 'auth_token', 'hmac_key', 'basic_auth_user', 'jwt_claim', 'oauth_key'], {
      default: '',
      description: 'Where several methods succeed: whose key counts. Empty: that of the last one'
    }),
    securityProcessingMode: Type.Enum(['legacy', 'compliant'], {
      default: 'legacy',
      description:
        '`legacy`: the first entry of `security` whose schemes are all enabled (else the first that names an enabled one) counts, all of them must succeed; `compliant`: any entry, and any of `security` here'
    }),
    security: Type.Array(Type.Array(Type.String({ minLength: 1, maxLength: 256 }), { maxItems: 20 }), {
      default: [],
      maxItems: 50,
      description: 'More alternatives, each a list of schemes that must all succeed (compliant alone)'
    }),
    securitySchemes: Type.Record(
      Type.String(),
      Type.Object({ enabled: Enabled }, { description: 'Its members depend on its kind' }),
      { default: {}, description: 'By name in components.securitySchemes' }
    ),
    hmac: Type.Optional(Hmac),
    messageSignatures: Type.Optional(MessageSignatures),
    certificateAuth: Type.Optional(
      Type.Object({ enabled: Enabled }, { ...strict, description: 'The key made from the client certificate' })
    ),
    customKeyLifetime: Type.Optional(
      Type.Object(
        {
          enabled: Enabled,
          value: Type.String({ pattern: '^(\\d{1,9}h)?(\\d{1,9}m)?(\\d{1,9}s)?$', example: '24h' }),
          respectValidity: Flag('A session is kept until its token expires, if that is later')
        },
        { ...strict, description: 'How long sessions made from tokens are kept' }
      )
    ),
    protectedResourceMetadata: Type.Optional(
      Type.Object(
        {
          enabled: Enabled,
          wellKnownPath: Type.String({
            default: '.well-known/oauth-protected-resource',
            pattern: '^[A-Za-z0-9._~/-]{1,256}$',
            description: 'Below the listen path'
          }),
          resource: Word('Identifier of the resource; empty: the address of the API'),
          authorizationServers: Texts('Issuers that tokens come from'),
          scopesSupported: Texts('Scopes that tokens may have')
        },
        { ...strict, description: 'Tells clients where tokens come from (RFC 9728)' }
      )
    )
  },
  strict
)
export type Authentication = Static<typeof Authentication>
export type HmacExtension = Static<typeof Hmac>
export type MessageSignaturesExtension = Static<typeof MessageSignatures>

export const ClientCertificates = Type.Object(
  {
    enabled: Enabled,
    allowlist: Type.Array(Type.String({ minLength: 1, maxLength: 1024 }), {
      default: [],
      maxItems: 1000,
      description: 'Ids of stored certificates or PEM files; an authority admits what it has signed. Empty: nobody'
    })
  },
  { ...strict, description: 'Only clients with one of these certificates, before any other credential' }
)
