import { Ajv2020 } from 'ajv/dist/2020.js'
import t from 'tap'
import { api, gateway } from '../helpers/gateway.ts'

const described = {
  key: { type: 'apiKey', in: 'header', name: 'X-Key' },
  users: { type: 'http', scheme: 'basic' },
  jwt: { type: 'http', scheme: 'bearer' },
  oauth: { type: 'oauth2', flows: {} },
  tls: { type: 'mutualTLS' }
}

/** @param schemes by name, each what it has beside `enabled` */
function documentOf(id: string, schemes: Record<string, object>, more: object = {}): unknown {
  const securitySchemes = Object.fromEntries(
    Object.entries(schemes).map(([name, scheme]) => [name, { enabled: true, ...scheme }])
  )
  const document: any = api(id, 'svc://echo', {
    server: { authentication: { enabled: true, securitySchemes, ...more } }
  })
  document.components.securitySchemes = described
  return document
}

t.test('lists tell how callers show who they are, and are filtered by it', async t => {
  const provider = { introspection: { enabled: true, url: 'https://id.example/ask' } }
  const external = { jwt: { enabled: true, signingMethod: 'rsa', source: 'https://id.example/jwks' } }
  const on = { enabled: true }
  const types: Record<string, string> = {
    off: 'keyless',
    key: 'token',
    users: 'basic',
    jwt: 'jwt',
    asked: 'oauth',
    external: 'oauth',
    hmac: 'hmac',
    messages: 'message_signature',
    tls: 'certificate',
    own: 'certificate',
    both: 'multiple'
  }
  const gw = await gateway(t, {
    apis: [
      api('off', 'svc://echo'),
      documentOf('key', { key: {} }),
      documentOf('users', { users: {} }),
      documentOf('jwt', { jwt: {} }),
      documentOf('asked', { oauth: { providers: [provider] } }),
      documentOf('external', { oauth: { providers: [external] } }),
      documentOf('hmac', {}, { hmac: on }),
      documentOf('messages', {}, { messageSignatures: on }),
      documentOf('tls', { tls: {} }),
      documentOf('own', {}, { certificateAuth: on }),
      documentOf('both', { key: {}, users: {} })
    ]
  })
  const list = async (query: string) =>
    (await gw.api('GET', `/api/apis?page_size=50&sort=created_at${query}`)).body.apis
  t.same(Object.fromEntries((await list('')).map(({ id, auth_type }: any) => [id, auth_type])), types)
  for (const [name, ids] of [
    ['keyless', 'off'],
    ['token', 'key both'],
    ['auth_token', 'key both'],
    ['basic', 'users both'],
    ['basic_auth_user', 'users both'],
    ['jwt', 'jwt'],
    ['jwt_claim', 'jwt'],
    ['oauth', 'asked external'],
    ['oauth_key', 'asked external'],
    ['hmac', 'hmac'],
    ['hmac_key', 'hmac'],
    ['message_signature', 'messages'],
    ['certificate', 'tls own'],
    ['mtls', 'tls own'],
    ['multiple', 'both']
  ] as const)
    t.equal((await list(`&auth_type=${name}`)).map(({ id }: any) => id).join(' '), ids, name)
  t.equal((await gw.api('GET', '/api/apis?auth_type=surprise')).status, 400)
})

t.test('the schema for editors knows the members of each kind of scheme, and no others', async t => {
  const gw = await gateway(t)
  const { body } = await gw.svc('GET', '/svc/schema')
  const fits = new Ajv2020({ strict: false, multipleOfPrecision: 6 }).compile(body)
  const { 'x-svc-api-gateway': extension } = documentOf('a', {}) as any
  const provider = { introspection: { enabled: true, url: 'https://id.example/ask' } }
  for (const [scheme, isRight] of [
    [{ enabled: true }, true],
    [{ enabled: true, header: { enabled: true }, enableClientCertificate: true }, true],
    [{ enabled: true, cacheTTL: 5 }, true],
    [{ enabled: true, source: 'x', jwksURIs: [{ url: 'https://id.example' }], scopes: {} }, true],
    [{ enabled: true, providers: [provider] }, true],
    [{ source: 'x' }, false],
    [{ enabled: true, source: 'x', cacheTTL: 5 }, false],
    [{ enabled: true, cacheTTL: '5' }, false],
    [{ enabled: true, signingMethod: 'none' }, false],
    [{ enabled: true, surprise: 1 }, false]
  ] as const) {
    extension.server.authentication.securitySchemes = { any: scheme }
    t.equal(fits(extension), isRight, JSON.stringify(scheme))
  }
})
