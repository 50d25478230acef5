import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import t from 'tap'
import type { Door, Endpoint } from '../../control/endpoint.ts'
import { endpoints } from '../../control/endpoints/index.ts'
import { api, gateway, SECRET } from '../helpers/gateway.ts'
import { type Bad, bodiesOf, LONG, unasked } from './badInput/bodies.ts'
import { creation, filled } from './badInput/furnished.ts'
import { pathsIn, pathsOf, replaced, unique, wrongValues } from './badInput/members.ts'
import { ids, queries, queryValues } from './badInput/places.ts'
import { unharmed, type Walk, walk } from './badInput/walk.ts'
import { everything, type Headers, wire, wrong } from './badInput/wire.ts'

/** Walks the endpoint table with what nobody should send: a row that is added is tried by itself. */

t.setTimeout(300_000)
// As in `walk`.
t.hookDomain.destroy()

const sqlite = () => {
  const folder = mkdtempSync(join(tmpdir(), 'svc-walk-'))
  t.teardown(() => rmSync(folder, { recursive: true, force: true }))
  return { storage: { documents: { type: 'sqlite', path: join(folder, 'walk.db') } } }
}
const leads = ({ path }: Endpoint) => path.includes('{')
const json = { 'Content-Type': 'application/json' }

const sending = (path: string, { body, type = 'application/json', headers }: Bad) => ({
  path,
  body,
  headers: { 'Content-Type': type, ...headers }
})

/** The places of a row: what exists, and what does not. */
async function placesOf(row: Endpoint, { furniture }: Walk): Promise<readonly string[]> {
  const params = leads(row) ? await furniture.params(row.path) : null
  return params === null ? [filled(row.path, null)] : [filled(row.path, params), filled(row.path, null)]
}

t.test('no endpoint opens to a wrong credential, whatever else is wrong', async t => {
  const gw = await gateway(t, { settings: { management: { failed_credentials_per_minute: 0 } } })
  const key = await gw.user({ org_id: 'default' })
  const line = wire(gw, key)
  t.teardown(() => line.close())
  const names = {
    gateway: 'X-Svc-Authorization',
    management: 'Authorization',
    portal: 'Authorization',
    admin: 'Admin-Auth'
  }
  const rights = { gateway: SECRET, management: key, portal: key, admin: SECRET }
  const before = await everything(gw)
  const calls = [
    ...endpoints.map(({ method, path, door }) => [method, filled(path, null), door] as const),
    ['GET', '/svc/nothing', 'gateway'],
    ['PATCH', '/svc/keys', 'gateway'],
    ['GET', '/svc/%zz', 'gateway'],
    ['GET', '/api/nothing', 'management'],
    ['PATCH', '/api/keys', 'management'],
    ['GET', '/portal-api/nothing', 'portal'],
    ['GET', '/admin/%zz', 'admin']
  ] satisfies [string, string, Door][] | readonly (readonly [string, string, Door])[]
  for (const [method, path, door] of calls) {
    if (door === 'open') continue
    const [name, right] = [names[door], rights[door]]
    const others: Headers = Object.fromEntries(
      Object.entries({ 'X-Svc-Authorization': SECRET, Authorization: key, 'Admin-Auth': SECRET }).filter(
        ([other]) => other !== name
      )
    )
    const values: readonly (string | readonly string[])[] = [
      '',
      ' ',
      `${right}x`,
      right.slice(1),
      right.toUpperCase(),
      [right, right],
      `${right}, ${right}`,
      `Basic ${right}`,
      `Bearer`,
      `Bearer Bearer ${right}`,
      'x'.repeat(8000),
      '__proto__',
      "' OR 1=1 --",
      '\u00ff'
    ]
    const status = door === 'gateway' ? 403 : 401
    for (const value of values) {
      const body = method === 'GET' ? null : '{'
      const sending = { method, path, door, body, headers: { ...others, [name]: value } }
      const reply = await line.send(sending)
      const fault = reply.status === status ? wrong(sending, reply) : `status ${reply.status}`
      if (fault !== null)
        t.fail(`${method} ${path} ${String(value).slice(0, 40)}: ${fault} ${reply.text.slice(0, 200)}`)
    }
  }
  t.same(await everything(gw), before)
})

t.test('no body makes an endpoint stumble', async t => {
  const walked = await walk(t)
  const tried = new Set<unknown>()
  for (const row of endpoints) {
    const isNew = { shape: !tried.has(row.body), form: !tried.has(row.bodyForm) }
    tried.add(row.body).add(row.bodyForm)
    for (const [i, [what, bad]] of bodiesOf(row.bodyForm).entries()) {
      if (bad.large !== undefined && !isNew[bad.large]) continue
      const places = await placesOf(row, walked)
      // Who cannot read it does not come to ask whether the document is there.
      const some = bad.large || bad.taken === 'never' ? [places[i % places.length]!] : places
      for (const path of some) await walked.tried(what, row, sending(path, bad), bad.taken)
    }
    if (row.bodyForm !== 'none') continue
    for (const [what, bad] of Object.entries(unasked)) {
      const [path] = await placesOf(row, walked)
      await walked.tried(what, row, sending(path!, bad))
    }
  }
  await unharmed(t, walked)
})

t.test('what a body holds makes no database stumble', async t => {
  const walked = await walk(t, sqlite())
  for (const row of endpoints)
    for (const [what, bad] of bodiesOf(row.bodyForm)) {
      if (bad.large || bad.taken === 'never') continue
      const [path] = await placesOf(row, walked)
      await walked.tried(what, row, sending(path!, bad), bad.taken)
    }
  await unharmed(t, walked)
})

t.test('a body above the limit is refused with 413, told or found out while it comes', async t => {
  const walked = await walk(t, { management: { streaming: { enabled: true }, failed_credentials_per_minute: 0 } })
  const most = 10 * 1024 * 1024
  const piece = Buffer.alloc(1024 * 1024, 0x20)
  const chunk = [`${piece.length.toString(16)}\r\n`, piece, '\r\n']
  for (const row of endpoints) {
    if (row.bodyForm === 'none') continue
    const { method, door } = row
    const path = filled(row.path, await walked.furniture.params(row.path))
    const head = `${method} ${path} HTTP/1.1\r\nHost: a\r\n${walked.wire.credential(door)}Content-Type: application/json\r\n`
    const told = [`${head}Content-Length: ${most + 1}\r\n\r\n`]
    const found = [`${head}Transfer-Encoding: chunked\r\n\r\n`, ...new Array(10).fill(chunk).flat(), '1\r\n \r\n']
    for (const parts of [told, found]) {
      const answer = await walked.wire.raw(door, parts)
      if (!/^HTTP\/1\.1 413 /.test(answer)) t.fail(`${method} ${row.path}: ${answer.slice(0, 300)}`)
      const reply = { status: 413, headers: json, text: answer.split('\r\n\r\n')[1]! }
      const fault = wrong({ method, door, path }, { ...reply, headers: { 'content-type': 'application/json' } })
      if (fault !== null) t.fail(`${method} ${row.path}: ${fault}`)
    }
  }
  await unharmed(t, walked)
})

t.test('a body that breaks off or lies about itself changes nothing', async t => {
  const walked = await walk(t)
  const { furniture, wire, gw } = walked
  for (const row of endpoints) await furniture.params(row.path)
  const before = await everything(gw)
  for (const row of endpoints) {
    if (row.bodyForm === 'none') continue
    const { method, door } = row
    const path = filled(row.path, await furniture.params(row.path))
    const head = `${method} ${path} HTTP/1.1\r\nHost: a\r\nConnection: close\r\n${wire.credential(door)}Content-Type: application/json\r\n`
    for (const rest of [
      'Transfer-Encoding: chunked\r\n\r\n2\r\n{}\r\nzz\r\n',
      'Transfer-Encoding: gzip, chunked\r\n\r\n2\r\n{}\r\n0\r\n\r\n',
      'Transfer-Encoding: chunked\r\nContent-Length: 2\r\n\r\n{}',
      'Content-Length: 2\r\nContent-Length: 3\r\n\r\n{}',
      'Content-Length: -1\r\n\r\n{}',
      'Content-Length: 1e3\r\n\r\n{}'
    ]) {
      const answer = await wire.raw(door, [head + rest])
      if (!/^HTTP\/1\.1 (?:4\d\d|501) /.test(answer)) t.fail(`${method} ${path} ${JSON.stringify(rest)}: ${answer}`)
    }
  }
  t.same(await everything(gw), before)
  await unharmed(t, walked)
})

t.test('no member in a document makes an endpoint stumble', async t => {
  const walked = await walk(t)
  const shapes = Map.groupBy(
    endpoints.filter(({ bodyForm, path }) => bodyForm !== 'none' && !path.endsWith('/certs')),
    ({ body, door, bodyForm, path }) => (bodyForm === 'json' ? body : `${door} ${bodyForm} ${path.split('/')[3]}`)
  )
  let turn = 0
  for (const rows of shapes.values())
    for (const value of wrongValues) {
      // Rows of one shape share the work: each member meets each value at one of them.
      const row = rows[turn++ % rows.length]!
      const { base, type } = await baseOf(row, walked)
      for (const path of unique([...pathsOf(row.body as object), ...pathsIn(base)])) {
        if (value.length > LONG.length && path.length > 1) continue
        const one = {
          path: filled(row.path, await walked.furniture.params(row.path)),
          // A patch changes the member alone.
          body: replaced(row.method === 'PATCH' ? {} : base, path, value),
          headers: { 'Content-Type': type }
        }
        await walked.tried(`/${path.join('/')} as ${value.slice(0, 40)}`, row, one)
      }
    }
  await unharmed(t, walked)
})

/** A document that the row takes, if any is known. */
async function baseOf(row: Endpoint, { furniture, wire }: Walk): Promise<{ base: unknown; type: string }> {
  const made = creation(row.path.replace(/\/\{\w+\}$/, ''), furniture.name())
  const type = made?.type ?? 'application/json'
  const base = made?.body ?? {}
  const { door } = row
  if (row.method !== 'PUT' || !endpoints.some(({ method, path }) => method === 'GET' && path === row.path))
    return { base, type }
  // What is there, as it is; not where it has members that only readers see.
  const path = filled(row.path, await furniture.params(row.path))
  const present = JSON.parse((await wire.send({ method: 'GET', door, path })).text)
  const headers = { 'Content-Type': type }
  for (const known of [present, present.data]) {
    const { status } = await wire.send({ method: 'PUT', door, path, body: JSON.stringify(known ?? 0), headers })
    if (status < 400) return { base: known, type }
  }
  return { base, type }
}

t.test('no id makes an endpoint stumble', async t => {
  const walked = await walk(t)
  for (const row of endpoints.filter(leads)) {
    const params = (await walked.furniture.params(row.path)) ?? {}
    const names = [...row.path.matchAll(/\{(\w+)\}/g)].map(([, name]) => name!)
    for (const name of names)
      for (const id of ids) {
        // One part of the way is wrong, the others are right.
        const path = row.path.replaceAll(/\{(\w+)\}/g, (_, other: string) =>
          other === name ? id : (params[other] ?? 'x')
        )
        const reply = await walked.tried(`{${name}} = ${id.slice(0, 40)}`, row, {
          path,
          ...(row.bodyForm === 'none' ? {} : { body: '{}', headers: json })
        })
        if (reply !== null && 'x-injected' in reply.headers) t.fail(`${row.path}: a header of ${id}`)
      }
  }
  await unharmed(t, walked)
})

t.test('no query makes an endpoint stumble', async t => {
  const walked = await walk(t)
  for (const row of endpoints) {
    const body = row.bodyForm === 'none' ? {} : { body: '{}', headers: json }
    const known = Object.keys((row.query as { properties?: object }).properties ?? {})
    const tried = [...queries, ...known.flatMap(name => queryValues.map(value => `?${name}=${value}`))]
    for (const query of tried) {
      const [path] = await placesOf(row, walked)
      await walked.tried(query.slice(0, 60), row, { path: path! + query, ...body })
    }
  }
  await unharmed(t, walked)
})

t.test('no header makes an endpoint stumble', async t => {
  const walked = await walk(t)
  const ifMatch = [
    '"999999"',
    '""',
    '"',
    'W/"1"',
    '*, "1"',
    'x'.repeat(8000),
    '"1',
    '-1',
    '1e9',
    '\u00ff',
    '"__proto__"'
  ]
  const accept = [
    '',
    '*',
    ';;;',
    'a/b;q=nonsense',
    '*/*;q=0',
    'application/yaml;q=2',
    `${'a/b,'.repeat(2000)}`,
    '__proto__'
  ]
  const all: readonly Headers[] = [
    ...ifMatch.map(value => ({ 'If-Match': value })),
    ...accept.map(value => ({ Accept: value })),
    { 'Content-Type': ['application/json', 'application/yaml'] },
    { 'Content-Type': 'application/json, application/yaml' },
    { 'Content-Type': '' },
    { 'Content-Type': 'x'.repeat(8000) },
    { 'X-Forwarded-For': `${'1.1.1.1,'.repeat(800)}nonsense` },
    { Forwarded: 'for="[::1' },
    { 'X-HTTP-Method-Override': 'DELETE' },
    { Range: 'bytes=0-0,1-1' }
  ]
  for (const row of endpoints) {
    const { base, type } = await baseOf(row, walked)
    for (const headers of all) {
      const [path] = await placesOf(row, walked)
      const body = row.bodyForm === 'none' ? {} : { body: JSON.stringify(base) }
      await walked.tried(JSON.stringify(headers).slice(0, 60), row, {
        path: path!,
        ...body,
        headers: { ...(row.bodyForm === 'none' ? {} : { 'Content-Type': type }), ...headers }
      })
    }
  }
  await unharmed(t, walked)
})

t.test('many faults below a long name are told shortly', async t => {
  const walked = await walk(t)
  const row = endpoints.find(({ method, path }) => method === 'POST' && path === '/api/apis/oas')!
  const operation = (more: object) => ({ operationId: 'o', responses: {}, ...more })
  const parameters = Array.from({ length: 5000 }, () => ({ name: 1 }))
  const allOf = Array.from({ length: 5000 }, () => ({ type: 7 }))
  const content = { 'application/json': { schema: { properties: { [LONG]: { allOf } } } } }
  for (const paths of [
    { [`/${LONG}`]: { get: operation({ parameters }) } },
    { '/a': { post: operation({ requestBody: { content } }) } }
  ]) {
    const middleware = { operations: { o: { validateRequest: { enabled: true } } } }
    const body = JSON.stringify(api('long', 'http://127.0.0.1:1', { middleware }, paths))
    await walked.tried('many faults', row, { path: row.path, body, headers: json }, 'never')
  }
  await unharmed(t, walked)
})

t.test('what is there already is not created again', async t => {
  const walked = await walk(t)
  const again: Record<string, number> = {
    '/svc/apis/oas': 409,
    '/api/apis/oas': 409,
    '/api/apis/streams': 409,
    '/svc/policies': 409,
    '/api/portal/policies': 409,
    '/api/assets': 409,
    '/api/hooks': 409,
    '/api/users': 409,
    '/admin/users': 409,
    '/admin/organisations': 409
  }
  for (const row of endpoints.filter(({ method, path }) => method === 'POST' && path in again)) {
    const { body, type = 'application/json' } = creation(row.path, walked.furniture.name())!
    const sending = { path: row.path, body: JSON.stringify(body), headers: { 'Content-Type': type } }
    const first = await walked.tried('first', row, sending)
    const second = await walked.tried('again', row, sending)
    if (first === null || first.status >= 300) t.fail(`${row.path}: ${first?.status} ${first?.text}`)
    t.equal(second?.status, again[row.path], row.path)
  }
  await unharmed(t, walked)
})
