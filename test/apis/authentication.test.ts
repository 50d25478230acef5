import { generateKeyPairSync } from 'node:crypto'
import t from 'tap'
import { Invalid } from '../../config/validate.ts'
import type { Authentication, JwtScheme, KeySource, Scheme } from '../../gateway/api.ts'
import { readApi } from '../../gateway/documents/readApi.ts'
import { certificate as made } from '../helpers/certificates.ts'

const EXTENSION = 'x-svc-api-gateway'

type Json = Record<string, unknown>

const described: Json = {
  key: { type: 'apiKey', in: 'header', name: 'X-Key' },
  query: { type: 'apiKey', in: 'query', name: 'k' },
  cookie: { type: 'apiKey', in: 'cookie', name: 'sid' },
  jwt: { type: 'http', scheme: 'Bearer' },
  oidc: { type: 'openIdConnect', openIdConnectUrl: 'https://id.example' },
  basic: { type: 'http', scheme: 'basic' },
  oauth: { type: 'oauth2', flows: {} },
  tls: { type: 'mutualTLS' },
  digest: { type: 'http', scheme: 'digest' },
  nameless: { type: 'apiKey', in: 'body', name: 'x' },
  ref: { $ref: '#/components/securitySchemes/basic' },
  loop: { $ref: '#/components/securitySchemes/loop' }
}

interface Given {
  /** `securitySchemes` of the extension; what is not enabled is said so. */
  readonly schemes?: Json
  readonly security?: unknown
  /** Beside the schemes. */
  readonly more?: Json
  readonly document?: Json
}

function documentOf({ schemes = {}, security, more = {}, document = {} }: Given): Json {
  const securitySchemes = Object.fromEntries(
    Object.entries(schemes).map(([name, scheme]) => [name, { enabled: true, ...(scheme as Json) }])
  )
  return {
    openapi: '3.0.3',
    info: { title: 'a', version: '1' },
    paths: {},
    components: { securitySchemes: described },
    ...(security === undefined ? {} : { security }),
    [EXTENSION]: {
      info: { id: 'a', name: 'a', state: { active: true } },
      server: { listenPath: { value: '/a/' }, authentication: { enabled: true, securitySchemes, ...more } },
      upstream: { url: 'svc://echo' }
    },
    ...document
  }
}

function read(given: Given): Authentication {
  return readApi(documentOf(given), { source: 'store', matching: 'exact' }).authentication!
}

/** Each fault as pointer below `server.authentication` and message. */
function faultsOf(given: Given): string[] {
  try {
    read(given)
  } catch (cause) {
    if (!(cause instanceof Invalid)) throw cause
    return cause.faults.map(
      ({ path, message }) => `${path.replace(`/${EXTENSION}/server/authentication`, '')} ${message}`
    )
  }
  return []
}

/** The one method of an API with one scheme. */
function one(name: string, scheme: Json = {}): Scheme {
  return read({ schemes: { [name]: scheme } }).groups[0]![0]!
}

const SECRET = 'sixteen bytes - or more'
const rsa = generateKeyPairSync('rsa', { modulusLength: 2048 })
const spki = rsa.publicKey.export({ type: 'spki', format: 'pem' }).toString()
const base64 = (text: string) => Buffer.from(text).toString('base64')
const pemOf = (type: string, options: object) =>
  (generateKeyPairSync as any)(type, options).publicKey.export({ type: 'spki', format: 'pem' }) as string

t.test('each kind of scheme has its method, its places and its defaults', async t => {
  const authorization = [{ in: 'header', name: 'authorization' }]
  t.same(one('key'), {
    kind: 'token',
    locations: [{ in: 'header', name: 'x-key' }],
    takesCertificate: false,
    signature: null
  })
  t.same(one('basic'), { kind: 'basic', locations: authorization, rememberMs: 60_000, body: null })
  t.same(one('ref'), one('basic'), 'a reference')
  t.same(one('tls'), { kind: 'certificate', locations: [] })
  const jwt: JwtScheme = {
    kind: 'jwt',
    external: false,
    locations: [{ in: 'header', name: 'authorization' }],
    family: 'hmac',
    keys: { is: 'key' },
    skews: { issuedAt: 0, notBefore: 0, expires: 0 },
    skipKid: false,
    subject: [],
    policy: [],
    client: null,
    defaultPolicies: [],
    scopeClaims: [{ name: 'scope', path: ['scope'] }],
    scopePolicies: new Map(),
    issuers: [],
    audiences: [],
    subjects: [],
    needsJti: false,
    custom: []
  }
  t.same(one('jwt'), jwt)
  t.same(one('oidc'), jwt)
  const introspection = { enabled: true, url: 'https://id.example/ask' }
  t.same(one('oauth', { providers: [{ introspection }] }), {
    kind: 'introspection',
    locations: authorization,
    url: 'https://id.example/ask',
    clientId: '',
    clientSecret: '',
    subject: { name: 'sub', path: ['sub'] },
    cacheMs: 0,
    defaultPolicies: []
  })
  const external = { enabled: true, signingMethod: 'rsa', source: 'https://id.example/jwks' }
  t.same(one('oauth', { providers: [{ jwt: external }], defaultPolicies: ['gold'] }), {
    ...jwt,
    external: true,
    family: 'rsa',
    keys: { is: 'sets', sets: [{ url: 'https://id.example/jwks', cacheMs: 0 }] },
    skipKid: true,
    subject: [{ name: 'sub', path: ['sub'] }],
    scopeClaims: [],
    defaultPolicies: ['gold']
  })
})

t.test('places: those of OpenAPI, those that the extension adds, without those that it turns off', async t => {
  const on = (name = '') => ({ enabled: true, name })
  const off = { enabled: false }
  const table: readonly [scheme: string, given: Json, places: string][] = [
    ['key', {}, 'header:x-key'],
    ['key', { header: on() }, 'header:x-key'],
    ['key', { header: on('X-Other') }, 'header:x-key header:x-other'],
    ['key', { header: on('x-KEY') }, 'header:x-key'],
    ['key', { query: on(), cookie: on() }, 'header:x-key query:X-Key cookie:X-Key'],
    ['key', { query: on('q'), cookie: on('c') }, 'header:x-key query:q cookie:c'],
    ['key', { header: off, query: on() }, 'query:X-Key'],
    ['key', { query: off, cookie: { enabled: false, name: 'c' } }, 'header:x-key'],
    ['query', {}, 'query:k'],
    ['query', { header: on() }, 'header:authorization query:k'],
    ['query', { header: on('A'), cookie: on() }, 'header:a query:k cookie:A'],
    ['cookie', { query: on() }, 'query:Authorization cookie:sid'],
    ['jwt', { header: on('X-Token') }, 'header:x-token'],
    ['jwt', { header: on('X-Token'), query: on() }, 'header:x-token query:X-Token'],
    ['jwt', { header: off, cookie: on('jwt') }, 'cookie:jwt'],
    ['jwt', { query: on('t') }, 'header:authorization query:t'],
    ['basic', { header: on('X-User') }, 'header:x-user']
  ]
  for (const [scheme, given, places] of table)
    t.same(
      one(scheme, given)
        .locations.map(({ in: place, name }) => `${place}:${name}`)
        .join(' '),
      places,
      `${scheme} ${JSON.stringify(given)}`
    )
})

t.test('all of a token scheme, a basic scheme and our own methods is read', async t => {
  const signature = { enabled: true, algorithm: 'MasheryMD5', header: 'X-Sig', secret: 's$svc_meta.x' }
  t.match(one('key', { enableClientCertificate: true, signatureValidation: signature }), {
    takesCertificate: true,
    signature: {
      hash: 'md5',
      locations: [{ in: 'header', name: 'x-sig' }],
      secret: 's$svc_meta.x',
      skewS: 0,
      status: 401,
      message: 'Request signature verification failed'
    }
  })
  const more = { query: { enabled: true }, allowedClockSkew: 2, errorCode: 403, errorMessage: 'no' }
  t.match(one('key', { signatureValidation: { ...signature, ...more, algorithm: 'MasherySHA256' } }), {
    signature: {
      hash: 'sha256',
      locations: [
        { in: 'header', name: 'x-sig' },
        { in: 'query', name: 'X-Sig' }
      ],
      skewS: 2,
      status: 403,
      message: 'no'
    }
  })
  t.match(one('key', { signatureValidation: { ...signature, enabled: false } }), { signature: null })
  t.match(one('key', { header: { enabled: false }, enableClientCertificate: true }), { locations: [] })
  t.match(one('basic', { cacheTTL: 5 }), { rememberMs: 5000 })
  t.match(one('basic', { cacheTTL: 5, disableCaching: true }), { rememberMs: 0 })
  const body = { enabled: true, userRegexp: 'u=(\\w+)', passwordRegexp: 'p=\\w+' }
  const { body: read1 } = one('basic', { extractCredentialsFromBody: body }) as any
  t.same(
    [read1.user.first('u=ada&p=x'), read1.user.first('x'), read1.password.first('u=ada&p=x')],
    ['ada', null, 'p=x']
  )
  t.same([read1.user.groups, read1.password.groups], [1, 0])
  t.equal((one('basic', { extractCredentialsFromBody: { ...body, enabled: false } }) as any).body, null)
  const own = read({
    more: {
      hmac: { enabled: true, allowedAlgorithms: ['hmac-sha256'], allowedClockSkew: -1 },
      messageSignatures: { enabled: true },
      certificateAuth: { enabled: true },
      stripAuthorizationData: true,
      customKeyLifetime: { enabled: true, value: '1m', respectValidity: true },
      protectedResourceMetadata: { enabled: true, authorizationServers: ['https://id.example'] }
    }
  })
  t.same(own, {
    groups: [
      [
        { kind: 'hmac', locations: [{ in: 'header', name: 'authorization' }], algorithms: ['hmac-sha256'], skewMs: 0 },
        {
          kind: 'message-signature',
          locations: [],
          algorithms: [],
          required: ['@method', '@target-uri'],
          skewS: 30,
          maxAgeS: 300
        },
        { kind: 'certificate', locations: [] }
      ]
    ],
    base: null,
    strip: true,
    lifetime: { ms: 60_000, respectsValidity: true },
    metadata: {
      wellKnownPath: '.well-known/oauth-protected-resource',
      resource: '',
      authorizationServers: ['https://id.example'],
      scopes: []
    }
  })
})

t.test('all of a JWT scheme is read', async t => {
  const claim = (name: string) => ({ name, path: name.split('.') })
  const scheme = one('jwt', {
    signingMethod: 'rsa',
    jwksURIs: [{ url: 'https://a.example/jwks', cacheTimeout: 5 }, { url: 'http://b.example/jwks' }],
    source: 'is not looked at',
    skipKid: true,
    identityBaseField: 'user.id',
    subjectClaims: ['email', 'sub'],
    policyFieldName: 'pol',
    basePolicyClaims: ['realm.policy'],
    clientBaseField: 'azp',
    defaultPolicies: ['gold'],
    scopes: {
      claimName: 'scp',
      claims: ['permissions'],
      scopeToPolicyMapping: [
        { scope: 'read', policyId: 'r' },
        { scope: 'write', policyId: 'w' },
        { scope: 'read', policyId: 'l' }
      ]
    },
    issuedAtValidationSkew: 1,
    notBeforeValidationSkew: 2.5,
    expiresAtValidationSkew: 3,
    allowedIssuers: ['i'],
    allowedAudiences: ['a'],
    allowedSubjects: ['s'],
    jtiValidation: { enabled: true },
    customClaimValidation: { 'a.b': { type: 'exact_match', allowedValues: [1, 'x'], nonBlocking: true } }
  })
  t.same(scheme, {
    kind: 'jwt',
    external: false,
    locations: [{ in: 'header', name: 'authorization' }],
    family: 'rsa',
    keys: {
      is: 'sets',
      sets: [
        { url: 'https://a.example/jwks', cacheMs: 5000 },
        { url: 'http://b.example/jwks', cacheMs: 0 }
      ]
    },
    skews: { issuedAt: 1, notBefore: 2.5, expires: 3 },
    skipKid: true,
    subject: [claim('email'), claim('sub'), claim('user.id')],
    policy: [claim('realm.policy'), claim('pol')],
    client: claim('azp'),
    defaultPolicies: ['gold'],
    scopeClaims: [claim('permissions'), claim('scp')],
    scopePolicies: new Map([
      ['read', ['r', 'l']],
      ['write', ['w']]
    ]),
    issuers: ['i'],
    audiences: ['a'],
    subjects: ['s'],
    needsJti: true,
    custom: [{ claim: claim('a.b'), type: 'exact_match', allowed: [1, 'x'], nonBlocking: true }]
  })
  const scopeClaims = (scopes: Json) => (one('jwt', { scopes }) as JwtScheme).scopeClaims.map(({ name }) => name)
  t.same(scopeClaims({}), ['scope'])
  t.same(scopeClaims({ claims: ['scp'] }), ['scp'])
  const ignored = { clientBaseField: 'azp', idpClientIdMappingDisabled: true }
  t.equal((one('jwt', ignored) as JwtScheme).client, null)
})

t.test('source is an address, a PEM or a secret, each also in base64', async t => {
  const certificate = made().pem
  const sets = (url: string): KeySource => ({ is: 'sets', sets: [{ url, cacheMs: 0 }] })
  const secret = (text: string): KeySource => ({ is: 'secret', secret: Buffer.from(text) })
  const url = 'https://id.example/jwks'
  const table: readonly [family: string, source: string, keys: KeySource][] = [
    ['hmac', '', { is: 'key' }],
    ['rsa', '', { is: 'key' }],
    ['rsa', url, sets(url)],
    ['rsa', base64(url), sets(url)],
    ['rsa', ` ${url}\n`, sets(url)],
    ['rsa', spki, { is: 'pem', pem: spki.trim() }],
    ['rsa', base64(spki), { is: 'pem', pem: spki.trim() }],
    ['rsa', base64(spki).replace(/.{76}/g, '$&\n'), { is: 'pem', pem: spki.trim() }],
    ['ecdsa', certificate, { is: 'pem', pem: certificate.trim() }],
    ['hmac', SECRET, secret(SECRET)],
    ['hmac', base64(SECRET), secret(SECRET)],
    ['hmac', 'words with blanks only', secret('words with blanks only')],
    ['hmac', 'ÄÖÜäöüß+ÄÖÜ', secret('ÄÖÜäöüß+ÄÖÜ')]
  ]
  for (const [signingMethod, source, keys] of table) {
    t.same((one('jwt', { signingMethod, source }) as JwtScheme).keys, keys, `${signingMethod} ${source.slice(0, 20)}`)
    if (source === '') continue
    const jwt = { enabled: true, signingMethod, source }
    t.same((one('oauth', { providers: [{ jwt }] }) as JwtScheme).keys, keys, 'of an external server')
  }
  for (const [family, pem] of [
    ['ecdsa', pemOf('ec', { namedCurve: 'P-256' })],
    ['ecdsa', pemOf('ec', { namedCurve: 'P-521' })],
    ['eddsa', pemOf('ed25519', {})]
  ] as const)
    t.equal((one('jwt', { signingMethod: family, source: pem }) as JwtScheme).keys.is, 'pem', family)
})

t.test('keys that are weak, wrong or known to everybody are refused', async t => {
  const privateKey = rsa.privateKey.export({ type: 'pkcs8', format: 'pem' }).toString()
  const weak = pemOf('rsa', { modulusLength: 1024 })
  const table: readonly [family: string, source: string, message: RegExp][] = [
    ['hmac', 'short', /^is a secret of less than 16 bytes$/],
    ['hmac', base64('short'), /^is base64 of a secret of less than 16 bytes$/],
    ['hmac', 'fifteen letters', /^is a secret of less than 16 bytes$/],
    ['hmac', spki, /^is a public key or certificate: hmac needs a secret$/],
    ['hmac', base64(spki), /^is a public key/],
    ['hmac', 'https://id.example/jwks', /^is the address of public keys/],
    ['rsa', SECRET, /^must be the address of a JWKS or a public key in PEM/],
    ['rsa', base64(SECRET), /^must be the address/],
    ['rsa', 'ftp://id.example/jwks', /^must be the address/],
    ['rsa', 'https://u:p@id.example/', /^may not hold a user or password$/],
    ['rsa', 'https://', /^must be an http or https address$/],
    ['rsa', weak, /^is an RSA key of less than 2048 bits$/],
    ['rsa', privateKey, /^is a private key: give the public one$/],
    ['rsa', base64(privateKey), /^is a private key/],
    ['rsa', '-----BEGIN PUBLIC KEY-----\nAAAA\n-----END PUBLIC KEY-----', /^is a PEM that cannot be read$/],
    ['rsa', pemOf('ec', { namedCurve: 'P-256' }), /^is a key of type ec, which does not sign with rsa$/],
    ['ecdsa', spki, /^is a key of type rsa, which/],
    ['ecdsa', pemOf('ec', { namedCurve: 'secp256k1' }), /^must be of the curve P-256, P-384 or P-521$/],
    ['eddsa', pemOf('ed448', {}), /^is a key of type ed448/]
  ]
  for (const [signingMethod, source, message] of table) {
    const name = `${signingMethod} ${source.slice(0, 20)}`
    const [fault = ' ', ...more] = faultsOf({ schemes: { jwt: { signingMethod, source } } })
    t.same([fault.slice(0, fault.indexOf(' ')), more], ['/securitySchemes/jwt/source', []], name)
    t.match(fault.slice(fault.indexOf(' ') + 1), message, name)
    t.notOk(fault.includes(source), `${name}: it is not repeated`)
    const jwt = { enabled: true, signingMethod, source }
    t.match(faultsOf({ schemes: { oauth: { providers: [{ jwt }] } } }), [
      /^\/securitySchemes\/oauth\/providers\/0\/jwt\/source /
    ])
  }
})

t.test('every other fault is told with its place', async t => {
  const schemes = '/securitySchemes'
  const of = (name: string, scheme: Json): Given => ({ schemes: { [name]: scheme } })
  const off = { enabled: false }
  const table: readonly [given: Given, places: readonly string[]][] = [
    [{}, [schemes]],
    [of('key', off), [schemes]],
    [of('none', {}), [`${schemes}/none`, schemes]],
    [of('digest', {}), [`${schemes}/digest`, schemes]],
    [of('loop', {}), [`${schemes}/loop`, schemes]],
    [of('nameless', {}), [`${schemes}/nameless`, `${schemes}/nameless`]],
    [of('key', { source: SECRET }), [`${schemes}/key/source`, schemes]],
    [of('basic', { cacheTTL: 0 }), [`${schemes}/basic/cacheTTL`, schemes]],
    [of('tls', { header: off }), [`${schemes}/tls/header`, schemes]],
    [of('jwt', { signingMethod: 'none' }), [`${schemes}/jwt/signingMethod`, schemes]],
    [of('jwt', { allowedIssuers: 'x' }), [`${schemes}/jwt/allowedIssuers`, schemes]],
    [of('key', { header: off }), [`${schemes}/key`]],
    [of('basic', { header: off }), [`${schemes}/basic`]],
    [of('jwt', { header: off }), [`${schemes}/jwt`]],
    [{ more: { hmac: { enabled: true, header: off } } }, ['/hmac']],
    [of('key', { header: { enabled: true, name: 'a b' } }), [`${schemes}/key/header/name`]],
    [of('key', { cookie: { enabled: true, name: 'a;b' } }), [`${schemes}/key/cookie/name`]],
    [
      of('key', { signatureValidation: { enabled: true, algorithm: 'MasheryMD5' } }),
      [`${schemes}/key/signatureValidation`, `${schemes}/key/signatureValidation/secret`]
    ],
    [
      of('key', { signatureValidation: { enabled: true, algorithm: 'MasheryMD5', header: 'a b', secret: 's' } }),
      [`${schemes}/key/signatureValidation/header`]
    ],
    [
      of('key', {
        signatureValidation: { enabled: true, algorithm: 'MasheryMD5', query: { enabled: true }, secret: 's' }
      }),
      [`${schemes}/key/signatureValidation/query/name`]
    ],
    [
      of('basic', { extractCredentialsFromBody: { enabled: true, userRegexp: '(', passwordRegexp: '' } }),
      [
        `${schemes}/basic/extractCredentialsFromBody/userRegexp`,
        `${schemes}/basic/extractCredentialsFromBody/passwordRegexp`
      ]
    ],
    [
      of('basic', {
        extractCredentialsFromBody: { enabled: true, userRegexp: '(a)(?=b)', passwordRegexp: '(a{1000})' }
      }),
      [
        `${schemes}/basic/extractCredentialsFromBody/userRegexp`,
        `${schemes}/basic/extractCredentialsFromBody/passwordRegexp`
      ]
    ],
    [
      of('jwt', { signingMethod: 'rsa', jwksURIs: [{ url: 'https://a' }, { url: 'file:///etc/passwd' }] }),
      [`${schemes}/jwt/jwksURIs/1/url`]
    ],
    [of('jwt', { jwksURIs: [{ url: 'https://a' }] }), [`${schemes}/jwt/jwksURIs`]],
    [of('oauth', {}), [`${schemes}/oauth/providers`, schemes]],
    [of('oauth', { providers: [] }), [`${schemes}/oauth/providers`, schemes]],
    [of('oauth', { providers: [{}] }), [`${schemes}/oauth/providers/0`]],
    [
      of('oauth', {
        providers: [
          {
            jwt: { enabled: true, signingMethod: 'hmac', source: SECRET },
            introspection: { enabled: true, url: 'https://id.example' }
          }
        ]
      }),
      [`${schemes}/oauth/providers/0`]
    ],
    [
      of('oauth', { providers: [{ introspection: { enabled: true, url: 'id.example' } }] }),
      [`${schemes}/oauth/providers/0/introspection/url`]
    ],
    [{ ...of('key', {}), more: { baseIdentityProvider: 'oidc_user' } }, ['/baseIdentityProvider']],
    [{ ...of('key', {}), more: { security: [['key']] } }, ['/security']],
    [{ ...of('key', {}), more: { customKeyLifetime: { enabled: true, value: '0s' } } }, ['/customKeyLifetime/value']],
    [
      { ...of('key', {}), more: { protectedResourceMetadata: { enabled: true, wellKnownPath: '/' } } },
      ['/protectedResourceMetadata/wellKnownPath']
    ],
    [
      { ...of('key', {}), more: { protectedResourceMetadata: { enabled: true, wellKnownPath: 'a/../b' } } },
      ['/protectedResourceMetadata/wellKnownPath']
    ],
    [
      { ...of('key', {}), more: { securityProcessingMode: 'compliant', security: [['key'], ['key', 'basic']] } },
      ['/security/1']
    ],
    [{ schemes: {}, security: [{}], more: { securityProcessingMode: 'compliant' } }, [schemes]],
    [{ ...of('key', {}), security: [{ basic: [] }], more: { securityProcessingMode: 'compliant' } }, [schemes]],
    [{ ...of('key', {}), security: [{ basic: [] }, {}], more: { securityProcessingMode: 'compliant' } }, [schemes]]
  ]
  for (const [given, places] of table)
    t.same(
      faultsOf(given).map(fault => fault.slice(0, fault.indexOf(' '))),
      places,
      JSON.stringify({ ...given.schemes, ...given.more })
    )
})

t.test('streaming APIs read bodies by themselves: no credentials come from there', async t => {
  const extractCredentialsFromBody = { enabled: true, userRegexp: 'u=(\\w+)', passwordRegexp: 'p=(\\w+)' }
  const document = {
    'x-svc-streaming': {
      streams: { s: { input: { http_server: { path: '/in' } }, output: { http_server: { path: '/out' } } } }
    }
  }
  t.same(faultsOf({ schemes: { basic: { extractCredentialsFromBody } }, document }), [
    '/securitySchemes/basic/extractCredentialsFromBody is not possible in a streaming API: its bodies are the messages'
  ])
  t.same(faultsOf({ schemes: { basic: { extractCredentialsFromBody } } }), [])
  t.same(faultsOf({ schemes: { basic: {} }, more: { messageSignatures: { enabled: true } }, document }), [])
})

t.test('groups: which alternatives count, and what is tried first', async t => {
  const all = { key: {}, query: {}, basic: {}, jwt: {}, tls: {} }
  const compliant = { securityProcessingMode: 'compliant' }
  const certificateAuth = { enabled: true }
  const security = (...names: string[]) =>
    names.map(group => Object.fromEntries(group === '' ? [] : group.split(' ').map(name => [name, []])))
  const table: readonly [given: Given, groups: string][] = [
    // Legacy: one group.
    [{ schemes: all }, 'basic jwt certificate token@x-key,k'],
    [{ schemes: all, security: [] }, 'basic jwt certificate token@x-key,k'],
    [{ schemes: all, security: security('key', 'jwt') }, 'token@x-key'],
    [{ schemes: all, security: security('key jwt basic', 'key') }, 'basic jwt token@x-key'],
    [{ schemes: all, security: security('key query', 'key') }, 'token@x-key token@k'],
    [{ schemes: all, security: security('', 'jwt') }, 'jwt'],
    [{ schemes: all, security: security('') }, 'basic jwt certificate token@x-key,k'],
    [{ schemes: { key: {}, jwt: { enabled: false } }, security: security('jwt', 'key') }, 'token@x-key'],
    [{ schemes: { key: {}, basic: {} }, security: security('key jwt', 'basic') }, 'basic'],
    [{ schemes: { key: {} }, security: security('key jwt', 'basic') }, 'token@x-key'],
    [{ schemes: { key: {} }, security: security('basic') }, 'token@x-key'],
    [{ schemes: { key: {} }, security: security('key'), more: { certificateAuth } }, 'certificate token@x-key'],
    [{ schemes: {}, more: { certificateAuth } }, 'certificate'],
    // Compliant: every one.
    [{ schemes: all, security: security('key', 'jwt basic'), more: compliant }, 'token@x-key | basic jwt'],
    [{ schemes: all, security: security('', 'key', ''), more: compliant }, 'token@x-key | '],
    [{ schemes: { key: {} }, security: security('jwt', 'key basic', 'key'), more: compliant }, 'token@x-key'],
    [{ schemes: { key: {}, jwt: {} }, more: compliant }, 'token@x-key | jwt'],
    [
      {
        schemes: { key: {}, jwt: {} },
        security: security('key'),
        more: { ...compliant, security: [['jwt', 'certificateAuth'], []], certificateAuth }
      },
      'token@x-key | jwt certificate | '
    ],
    [
      { schemes: { key: {} }, security: security('key'), more: { ...compliant, certificateAuth } },
      'token@x-key | certificate'
    ],
    [{ schemes: { key: {}, query: {} }, security: security('key query'), more: compliant }, 'token@x-key token@k']
  ]
  const told = (scheme: Scheme) =>
    scheme.kind === 'token' ? `token@${scheme.locations.map(({ name }) => name)}` : scheme.kind
  for (const [given, groups] of table)
    t.equal(
      read(given)
        .groups.map(group => group.map(told).join(' '))
        .join(' | '),
      groups,
      JSON.stringify({ ...given, schemes: Object.keys(given.schemes ?? {}) })
    )
})

t.test('the base identity is that of a kind of method', async t => {
  const jwt = { enabled: true, signingMethod: 'hmac', source: SECRET }
  const asked = { enabled: true, url: 'https://id.example' }
  const table: readonly [name: string, scheme: Json, kind: string | null][] = [
    ['', {}, null],
    ['auth_token', {}, 'token'],
    ['hmac_key', {}, 'hmac'],
    ['basic_auth_user', {}, 'basic'],
    ['jwt_claim', {}, 'jwt'],
    ['oauth_key', { oauth: { providers: [{ introspection: asked }] } }, 'introspection'],
    ['oauth_key', { oauth: { providers: [{ jwt }] } }, 'jwt']
  ]
  for (const [baseIdentityProvider, scheme, kind] of table)
    t.equal(read({ schemes: { key: {}, ...scheme }, more: { baseIdentityProvider } }).base, kind, baseIdentityProvider)
})

t.test('what is off is checked all the same, and asks for nothing', async t => {
  t.equal(read({ schemes: { jwt: { enabled: false } }, more: { enabled: false } }), null)
  t.same(faultsOf({ schemes: { jwt: { source: 'short' } }, more: { enabled: false } }), [
    '/securitySchemes/jwt/source is a secret of less than 16 bytes'
  ])
})
