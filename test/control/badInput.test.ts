import { request } from 'node:http'
import t from 'tap'
import { endpoints as all } from '../../control/endpoints/index.ts'
import { gateway, SECRET, type TestGateway } from '../helpers/gateway.ts'

/** Walks the endpoint table: whatever is wrong with a call, the answer is JSON in the surface's form, and never a 5xx. */

const endpoints = all.filter(({ door }) => door === 'gateway')

interface Reply {
  readonly status: number
  readonly headers: Record<string, unknown>
  readonly text: string
}

type Headers = Record<string, string | string[]>

function send(gw: TestGateway, method: string, path: string, body: string | Buffer | null, headers: Headers = {}) {
  return new Promise<Reply>((resolve, reject) => {
    const { hostname, port } = new URL(gw.url)
    // The body's length is told always, or Node would send DELETE with chunks.
    const length = body === null ? {} : { 'Content-Length': String(Buffer.byteLength(body)) }
    const req = request({ hostname, port, method, path, headers: { ...length, ...headers }, agent: false }, res => {
      const chunks: Buffer[] = []
      res.on('data', chunk => chunks.push(chunk))
      res.on('end', () =>
        resolve({ status: res.statusCode!, headers: res.headers, text: Buffer.concat(chunks).toString() })
      )
    })
    req.on('error', reject)
    req.end(body ?? undefined)
  })
}

t.setTimeout(180_000)

const known = { 'X-Svc-Authorization': SECRET, 'Content-Type': 'application/json' }
const filled = (path: string, value = 'x1234') => path.replaceAll(/\{\w+\}/g, value)

/** What is wrong with an error answer; null: nothing. */
function wrong({ status, headers, text }: Reply): string | null {
  if (status < 400 || status > 499) return `status ${status} ${text.slice(0, 200)}`
  if (headers['content-type'] !== 'application/json') return `content type ${headers['content-type']}`
  const { status: word, message } = JSON.parse(text)
  return word === 'error' && typeof message === 'string' && message !== '' ? null : text.slice(0, 200)
}

const SHUT = '{"status":"error","message":"Attempted administrative access with invalid or missing key!"}'

t.test('no endpoint opens to a wrong credential, whatever else is wrong', async t => {
  const gw = await gateway(t)
  const credentials: Headers[] = [
    {},
    { 'X-Svc-Authorization': '' },
    { 'X-Svc-Authorization': `${SECRET}x` },
    { 'X-Svc-Authorization': SECRET.slice(1) },
    { 'X-Svc-Authorization': [SECRET, SECRET] },
    { 'X-Svc-Authorization': 'x'.repeat(8000) },
    { Authorization: SECRET },
    { 'Admin-Auth': SECRET }
  ]
  const calls = endpoints.map(({ method, path }) => [method, filled(path)] as const)
  for (const [method, path] of [
    ...calls,
    ['GET', '/svc/nothing'],
    ['PATCH', '/svc/keys'],
    ['GET', '/svc/%zz']
  ] as const)
    for (const headers of credentials) {
      const answer = await send(gw, method, path, method === 'GET' ? null : '{', headers)
      if (answer.status !== 403 || answer.text !== SHUT) t.fail(`${method} ${path}: ${answer.status} ${answer.text}`)
    }
})

const long = 'x'.repeat(1_000_000)
const bodies: Record<string, string | Buffer> = {
  nothing: '',
  blank: ' \n',
  'no JSON': '{"a":',
  'bare word': 'hello',
  'two values': '{} {}',
  text: '"text"',
  number: '7',
  list: '[]',
  null: 'null',
  'a member twice': '{"org_id":"a","org_id":"b"}',
  __proto__: '{"__proto__":{"rate":1}}',
  constructor: '{"constructor":{"prototype":{"rate":1}}}',
  'a number that is none': '{"rate":1e999}',
  '100 levels': `${'{"a":'.repeat(101)}1${'}'.repeat(101)}`,
  '100,000 levels': '['.repeat(100_000) + ']'.repeat(100_000),
  'a long member': JSON.stringify({ [long]: 1 }),
  'a long text': JSON.stringify({ alias: long, id: long, name: long, policy: long }),
  'no UTF-8': Buffer.from([0x7b, 0x22, 0xff, 0xfe, 0x22, 0x3a, 0x31, 0x7d]),
  'a byte order mark in UTF-16': Buffer.from('\ufeff{}', 'utf16le'),
  'half a character': '{"alias":"\\ud800","surprise":1}',
  NUL: '{"\\u0000":1}',
  'many members': JSON.stringify(Object.fromEntries(Array.from({ length: 50_000 }, (_, i) => [`m${i}`, i]))),
  'a million wrong members': JSON.stringify({ apply_policies: new Array(1_000_000).fill(1), tags: 1 })
}

t.test('no body is taken that is not what the endpoint asks for', async t => {
  const gw = await gateway(t)
  for (const { method, path, bodyForm } of endpoints) {
    if (bodyForm === 'none') continue
    for (const [name, body] of Object.entries(bodies)) {
      const fault = wrong(await send(gw, method, filled(path), body, known))
      if (fault !== null) t.fail(`${method} ${path}, ${name}: ${fault}`)
    }
  }
})

/** A schema's members, seen as the table's shapes are: objects of members. */
interface Shape {
  readonly properties?: Record<string, Shape>
  readonly anyOf?: readonly Shape[]
}

t.test('a member of another type than the shape says is refused by its name', async t => {
  const gw = await gateway(t)
  for (const { method, path, body } of endpoints) {
    for (const name of Object.keys((body as Shape).properties ?? {})) {
      for (const value of [{ 'no such member': 1 }, [[[]]], 1e300, 2 ** 63, -1e300]) {
        const answer = await send(gw, method, filled(path), JSON.stringify({ [name]: value }), known)
        // An unknown id is told first where there is one; a free-form member takes objects.
        if (answer.status >= 500) t.fail(`${method} ${path} ${name} ${JSON.stringify(value)}: ${answer.status}`)
        if (answer.status !== 200 && wrong(answer) !== null) t.fail(`${method} ${path} ${name}: ${wrong(answer)}`)
      }
    }
  }
})

const ids = [
  '%00',
  'a%00b',
  'a%2Fb',
  '..%2Fetc%2F',
  '%2e%2e',
  '%0d%0aX-Injected:%201',
  '%ff',
  '%zz',
  '%',
  '__proto__',
  'constructor',
  'toString',
  'a'.repeat(4096),
  '%F0%9F%94%91',
  "';DROP%20TABLE%20documents;--",
  'a%20b',
  '%7B%7D',
  '-1',
  '%E2%80%AE'
]

t.test('no id makes an endpoint stumble', async t => {
  const gw = await gateway(t)
  for (const { method, path, bodyForm } of endpoints) {
    if (!path.includes('{')) continue
    for (const id of ids) {
      const answer = await send(gw, method, filled(path, id), bodyForm === 'none' ? null : '{}', known)
      const fault = wrong(answer)
      if (fault !== null) t.fail(`${method} ${filled(path, id).slice(0, 60)}: ${fault}`)
      t.notOk('x-injected' in answer.headers)
    }
  }
})

const queries = [
  '?__proto__=1',
  '?surprise=1',
  '?p=x&page_size=-1&q=1',
  '?hashed=%ff%00',
  `?${'a=1&'.repeat(2000)}`,
  '?%'
]

t.test('no query makes an endpoint stumble', async t => {
  const gw = await gateway(t)
  for (const { method, path, bodyForm } of endpoints)
    for (const query of queries) {
      const answer = await send(gw, method, filled(path) + query, bodyForm === 'none' ? null : '{}', known)
      if (answer.status >= 500) t.fail(`${method} ${path}${query.slice(0, 40)}: ${answer.status}`)
      if (answer.status >= 400 && wrong(answer) !== null)
        t.fail(`${method} ${path}${query.slice(0, 40)}: ${answer.text}`)
    }
})

t.test('nothing that was refused has left a trace, and the gateway still serves', async t => {
  const gw = await gateway(t)
  for (const body of Object.values(bodies)) await send(gw, 'POST', '/svc/keys/create', body, known)
  t.same((await gw.svc('GET', '/svc/keys')).body, { keys: [] })
  t.equal((await gw.get('/hello')).status, 200)
  t.same(
    gw.log.lines.filter(({ level }) => level === 'error'),
    []
  )
})
