import t from 'tap'
import { meaning } from '../../control/cli/meaning.ts'
import { validate } from '../../control/cli/validate.ts'
import { api } from '../helpers/gateway.ts'

/** What the command line says about who gets in. */

const described = {
  a: { type: 'apiKey', in: 'header', name: 'X-A' },
  b: { type: 'apiKey', in: 'query', name: 'b' },
  users: { type: 'http', scheme: 'basic' },
  jwt: { type: 'http', scheme: 'bearer' },
  tls: { type: 'mutualTLS' }
}
const paths = {
  '/items': {
    get: { operationId: 'list', responses: {} },
    post: { operationId: 'add', security: [{ a: [] }], responses: {} }
  },
  '/health': { get: { operationId: 'health', security: [], responses: {} } },
  '/login': { post: { operationId: 'login', security: [{ users: [] }, {}], responses: {} } }
}

interface Asked {
  /** Names of the schemes of each alternative. */
  readonly security?: readonly (readonly string[])[]
  readonly enabled?: readonly string[]
  readonly authentication?: object
  readonly server?: object
  readonly operations?: object
  readonly global?: object
  readonly state?: object
  readonly paths?: object
}

function documentOf(asked: Asked): Record<string, unknown> {
  const { enabled = [], authentication = {}, server = {}, operations = {}, global = {}, state = {} } = asked
  const securitySchemes = Object.fromEntries(enabled.map(name => [name, { enabled: true }]))
  const document: any = api(
    'shop',
    'svc://echo',
    {
      info: { state: { active: true, ...state } },
      server: { authentication: { enabled: true, securitySchemes, ...authentication }, ...server },
      middleware: { global, operations }
    },
    asked.paths ?? { '/items': paths['/items'] }
  )
  document.components.securitySchemes = described
  if (asked.security !== undefined)
    document.security = asked.security.map(group => Object.fromEntries(group.map(name => [name, []])))
  return document
}

function notesOf(asked: Asked): readonly string[] {
  const { faults, notes } = validate([{ kind: 'api', id: 'shop', body: documentOf(asked), file: 'shop.json' }])
  if (faults.length > 0) throw new Error(faults.join())
  return notes.map(note => note.replace('shop.json: api shop: ', ''))
}

t.test('which operations are reached without a credential, and which credentials do not count', async t => {
  const compliant = { securityProcessingMode: 'compliant' }
  const on = { enabled: true }
  const off = { authentication: { enabled: false } }
  const allowlist = { clientCertificates: { enabled: true, allowlist: [] } }
  const everyone = 'open to everyone'
  const withCertificate = `${everyone} with a client certificate of the allow-list`
  const legacy = 'does not count: securityProcessingMode is legacy'
  const whole = 'only that of the whole description is read'
  const table: readonly [name: string, asked: Asked, notes: readonly string[]][] = [
    ['one scheme', { enabled: ['a'], security: [['a']] }, []],
    ['no security', { enabled: ['a'], paths: {} }, []],
    ['off', { ...off, paths }, [`${everyone}: authentication is off`]],
    ['no authentication at all', { server: { authentication: undefined } }, [`${everyone}: authentication is off`]],
    ['client certificates alone', { ...off, server: allowlist }, [`${withCertificate}: authentication is off`]],
    ['not routed', { ...off, state: { active: false } }, []],
    ['internal', { ...off, state: { internal: true } }, []],
    [
      'ignoreAuthentication',
      { enabled: ['a'], security: [['a']], operations: { list: { ignoreAuthentication: on } } },
      [`${everyone}: GET /items: ignoreAuthentication`]
    ],
    [
      'ignoreAuthentication behind client certificates',
      { enabled: ['a'], security: [['a']], server: allowlist, operations: { list: { ignoreAuthentication: on } } },
      [`${withCertificate}: GET /items: ignoreAuthentication`]
    ],
    [
      'blocked all the same',
      { enabled: ['a'], security: [['a']], operations: { list: { ignoreAuthentication: on, block: on } } },
      []
    ],
    [
      'not allowed all the same',
      { enabled: ['a'], security: [['a']], operations: { list: { ignoreAuthentication: on }, add: { allow: on } } },
      []
    ],
    [
      'OPTIONS',
      { enabled: ['a'], security: [['a']], global: { cors: { enabled: true, optionsPassthrough: true } } },
      [`${everyone}: OPTIONS of every path: cors.optionsPassthrough`]
    ],
    [
      'its own security',
      { enabled: ['users', 'a'], security: [['users']], paths },
      [
        `not open: GET /health: its own security asks for no credential, but ${whole}`,
        `not open: POST /login: its own security asks for no credential, but ${whole}`,
        `warning: POST /items: its own security (a) does not count: ${whole}`,
        `warning: POST /login: its own security (users) does not count: ${whole}`
      ]
    ],
    [
      'a dropped alternative',
      { enabled: ['a', 'b'], security: [['a'], ['b', 'a'], []], paths: {} },
      [
        `warning: the alternative b and a ${legacy}, which takes a alone`,
        `not open: the alternative without credentials ({}) ${legacy}`
      ]
    ],
    [
      'a scheme that is off',
      { enabled: ['a'], security: [['a', 'jwt']], paths: {} },
      ['warning: security asks for a and jwt, but jwt is not enabled: the others are enough']
    ],
    [
      'other schemes',
      { enabled: ['a'], security: [['jwt']], paths: {} },
      ['warning: security names no enabled scheme; the enabled ones are asked for instead']
    ],
    [
      'an anonymous alternative',
      { enabled: ['a'], security: [['a'], []], authentication: compliant, paths: {} },
      [`${everyone}: security has an alternative without credentials ({})`]
    ],
    [
      'an anonymous alternative of the extension',
      { enabled: ['a'], security: [['a']], authentication: { ...compliant, security: [[]] }, paths: {} },
      [`${everyone}: authentication.security of the extension has an alternative without credentials ([])`]
    ],
    [
      'an alternative that is off',
      { enabled: ['a'], security: [['a'], ['jwt', 'a']], authentication: compliant, paths: {} },
      ['warning: the alternative jwt and a does not count: jwt is not enabled']
    ]
  ]
  for (const [name, asked, notes] of table) t.same(notesOf(asked), notes, name)
})

t.test('a plan tells the credential in words', async t => {
  const credential = (asked: Asked) =>
    meaning('api', null, documentOf(asked))
      .find(line => line.startsWith('credential: '))
      ?.replace('credential: ', '')
  const on = { enabled: true }
  const compliant = { securityProcessingMode: 'compliant' }
  const table: readonly [asked: Asked, words: string | undefined][] = [
    [{ authentication: { enabled: false } }, 'none: open to everyone'],
    [{ enabled: ['a'] }, 'a'],
    [{ enabled: ['a', 'b', 'jwt'] }, 'jwt (JWT) and a or b'],
    [{ enabled: ['a', 'users'], security: [['users', 'a'], ['a']] }, 'users (basic) and a'],
    [{ enabled: ['a', 'b'], security: [['a'], ['b']] }, 'a'],
    [{ enabled: ['a', 'b'], security: [['a'], ['b']], authentication: compliant }, 'a or b'],
    [
      { enabled: ['users', 'tls', 'a'], security: [[], ['users', 'tls'], ['a'], ['jwt']], authentication: compliant },
      'users (basic) and tls (certificate) or a or nothing ({})'
    ],
    [
      { enabled: ['a'], security: [['a']], authentication: { ...compliant, security: [['a', 'hmac']], hmac: on } },
      'a or a and hmac'
    ],
    [{ enabled: ['a'], authentication: { certificateAuth: on } }, 'certificateAuth and a'],
    [{ enabled: ['a'], security: [['a']], authentication: { hmac: on } }, 'a and hmac'],
    [
      { enabled: ['a'], server: { clientCertificates: on }, security: [['a']] },
      'a client certificate of the allow-list and a'
    ]
  ]
  for (const [asked, words] of table) t.equal(credential(asked), words)
})

t.test('a plan tells what else of the authentication changes, and no secret', async t => {
  const of = (source: string, mode: string, more: object = {}) =>
    documentOf({
      enabled: ['a'],
      authentication: {
        securityProcessingMode: mode,
        securitySchemes: { jwt: { enabled: true, source, ...more }, a: { enabled: mode === 'compliant' } }
      }
    })
  const lines = meaning('api', of('first secret', 'legacy'), of('second secret', 'compliant', { skipKid: true }))
  const place = '/x-svc-api-gateway/server/authentication/securitySchemes/jwt'
  t.same(lines, [
    'credential: jwt (JWT) → jwt (JWT) or a',
    `${place}/source: "********" → "********"`,
    `${place}/skipKid + true`
  ])
})
