import { randomBytes } from 'node:crypto'
import { writeFile } from 'node:fs/promises'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { join } from 'node:path'
import { Ajv2020 } from 'ajv/dist/2020.js'
import fc from 'fast-check'
import t, { type Test } from 'tap'
import { Settings } from '../../config/settings.ts'
import { compile } from '../../config/validate.ts'
import { type Log, systemClock } from '../../config/world.ts'
import { parseYaml, toYaml } from '../../config/yaml.ts'
import { apis as endpoints } from '../../control/endpoints/apis.ts'
import { control } from '../../control/server.ts'
import type { ControlTools } from '../../control/tools.ts'
import { apis } from '../../gateway/apis.ts'
import { changesLocal } from '../../gateway/changes/changesLocal.ts'
import { storeMemory } from '../../gateway/store/storeMemory.ts'

const SECRET = 'a secret for tests only'

function documentOf(id: string | undefined, listenPath: string, more: object = {}) {
  return {
    openapi: '3.1.0',
    'x-first': { b: 1, a: [1.5, null, 'text', { deep: {} }] },
    info: { title: 'test', version: '1', 'x-in-info': true },
    paths: {
      '/items': { get: { operationId: 'list', 'x-in-operation': [], responses: { default: { description: 'ok' } } } }
    },
    'x-svc-api-gateway': {
      info: { ...(id === undefined ? {} : { id }), name: 'test', state: { active: true } },
      upstream: { url: 'svc://echo' },
      server: { listenPath: { value: listenPath } }
    },
    ...more
  }
}

async function setUp(t: Test) {
  const folder = t.testdir({})
  const nothing = () => {}
  const log: Log = { debug: nothing, info: nothing, warn: nothing, error: nothing }
  const random = { bytes: (count: number) => Buffer.alloc(count, 7) }
  const store = storeMemory()
  const all = apis({ store, changes: changesLocal(), log, random, folder, matching: 'exact' })
  const settings = compile(Settings)({ gateway: { secret: SECRET } })
  // What these endpoints use of the tools.
  const tools = {
    settings,
    log,
    store,
    audit: null,
    random: { bytes: randomBytes },
    clock: systemClock,
    apis: all,
    reload: () => all.load()
  } as unknown as ControlTools
  const serve = control(endpoints, tools)
  const server = createServer((req, res) => {
    const [path, query] = req.url!.split('?')
    serve(req, res, path!, query ?? '', '127.0.0.1')
  })
  await new Promise<void>(resolve => server.listen(0, '127.0.0.1', resolve))
  t.teardown(() => server.close())
  const { port } = server.address() as AddressInfo
  async function call(method: string, path: string, body?: unknown, headers: Record<string, string> = {}) {
    const given = {
      'X-Svc-Authorization': SECRET,
      Connection: 'close',
      ...(body === undefined ? {} : { 'Content-Type': 'application/json' }),
      ...headers
    }
    const text = body === undefined ? null : typeof body === 'string' ? body : JSON.stringify(body)
    const response = await fetch(`http://127.0.0.1:${port}${path}`, { method, headers: given, body: text })
    const answer = await response.text()
    const type = response.headers.get('content-type')
    return {
      status: response.status,
      type,
      text: answer,
      json: type === 'application/json' ? JSON.parse(answer) : undefined
    }
  }
  return { call, folder, apis: all }
}

t.test('an API is created, read, listed, replaced and deleted', async t => {
  const { call, apis } = await setUp(t)
  const document = documentOf('a', '/a/')
  t.match(await call('POST', '/svc/apis/oas', document), {
    status: 200,
    text: '{"key":"a","status":"ok","action":"added"}'
  })
  t.match(await call('GET', '/svc/apis/oas/a'), { status: 200, text: JSON.stringify(document) })
  t.match(await call('GET', '/svc/apis/oas'), { status: 200, text: JSON.stringify([document]) })
  const changed = documentOf('a', '/b/')
  t.match(await call('PUT', '/svc/apis/oas/a', changed), {
    status: 200,
    text: '{"key":"a","status":"ok","action":"modified"}'
  })
  t.equal(apis.get('a')?.listenPath, '/b')
  t.match(await call('DELETE', '/svc/apis/oas/a'), {
    status: 200,
    text: '{"key":"a","status":"ok","action":"deleted"}'
  })
  for (const method of ['GET', 'DELETE'])
    t.match(await call(method, '/svc/apis/oas/a'), {
      status: 404,
      text: '{"status":"error","message":"API not found"}'
    })
  t.match(await call('PUT', '/svc/apis/oas/a', changed), { status: 404, json: { message: 'API not found' } })
})

t.test('a generated id comes back in the answer and in the document', async t => {
  const { call } = await setUp(t)
  const { json } = await call('POST', '/svc/apis/oas', documentOf(undefined, '/a/'))
  t.match(json.key, /^[0-9a-f]{32}$/)
  t.same((await call('GET', `/svc/apis/oas/${json.key}`)).json, documentOf(json.key, '/a/'))
})

t.test('documents come and go as JSON or YAML, in the form asked for', async t => {
  const { call } = await setUp(t)
  const document = documentOf('a', '/a/')
  t.match(
    await call('POST', '/svc/apis/oas', toYaml(document), { 'Content-Type': 'application/yaml; charset=utf-8' }),
    { status: 200 }
  )
  t.equal((await call('GET', '/svc/apis/oas/a')).text, JSON.stringify(document))
  const forms: [accept: string, type: string][] = [
    ['application/yaml', 'application/yaml'],
    ['text/yaml', 'application/yaml'],
    ['application/x-yaml, */*;q=0.1', 'application/yaml'],
    ['application/json, application/yaml', 'application/json'],
    ['application/json;q=0.5, application/yaml', 'application/yaml'],
    ['application/yaml;q=0', 'application/json'],
    ['*/*', 'application/json'],
    ['text/html', 'application/json']
  ]
  for (const [accept, type] of forms) {
    const answer = await call('GET', '/svc/apis/oas/a', undefined, { Accept: accept })
    t.equal(answer.type, type, accept)
    t.same(parseYaml(answer.text), document)
  }
  t.same(parseYaml((await call('GET', '/svc/apis/oas', undefined, { Accept: 'application/yaml' })).text), [document])
})

t.test('everything outside the extension comes back as it was given, in both forms', async t => {
  const { call } = await setUp(t)
  const name = fc.string({ maxLength: 10 }).filter(name => name !== '__proto__' && !/^\d+$/.test(name))
  const value = fc.jsonValue({ maxDepth: 4 }).filter(value => !JSON.stringify(value).includes('"__proto__"'))
  await call('POST', '/svc/apis/oas', documentOf('a', '/a/'))
  await fc.assert(
    fc.asyncProperty(fc.dictionary(name, value, { maxKeys: 5 }), fc.boolean(), async (members, yaml) => {
      const extra = Object.fromEntries(Object.entries(members).map(([name, value]) => [`x-${name}`, value]))
      const document = documentOf('a', '/a/', { ...extra, components: { 'x-more': extra, schemas: extra } })
      const expected = JSON.stringify(document)
      const sent = yaml ? toYaml(document) : expected
      const put = await call('PUT', '/svc/apis/oas/a', sent, {
        'Content-Type': yaml ? 'application/yaml' : 'application/json'
      })
      return put.status === 200 && (await call('GET', '/svc/apis/oas/a')).text === expected
    }),
    { numRuns: 60 }
  )
})

t.test('a document that cannot be read or meant is refused with 400 and every fault', async t => {
  const { call } = await setUp(t)
  await call('POST', '/svc/apis/oas', documentOf('a', '/a/'))
  const nested = '['.repeat(101) + ']'.repeat(101)
  for (const body of [
    '',
    '{',
    '[]',
    '5',
    'null',
    '"x"',
    '{"a":1,"a":2}',
    `{"x-svc-api-gateway":{},"x-y":${nested}}`,
    '{"__proto__":{}}'
  ])
    t.match(
      await call('POST', '/svc/apis/oas', body),
      { status: 400, json: { status: 'error', message: /^request malformed/ } },
      body.slice(0, 30)
    )
  for (const body of ['a: b: c', 'a: &a [*a]', '', '- 1'])
    t.match(await call('POST', '/svc/apis/oas', body, { 'Content-Type': 'application/yaml' }), {
      status: 400,
      json: { message: /^request malformed/ }
    })
  t.match(await call('POST', '/svc/apis/oas', { openapi: '3.0.3' }), {
    status: 400,
    json: { message: 'the payload should contain x-svc-api-gateway' }
  })
  t.match(await call('PUT', '/svc/apis/oas/a', documentOf('b', '/a/')), {
    status: 400,
    json: { message: 'Request APIID does not match that in Definition! For Update operations these must match.' }
  })
  const faulty = documentOf('b', 'b', { openapi: '2.0' })
  Object.assign(faulty['x-svc-api-gateway'].server, { unknown: 1 })
  const { status, json } = await call('POST', '/svc/apis/oas', faulty)
  t.equal(status, 400)
  t.same(
    json.faults.map(({ pointer }: { pointer: string }) => pointer),
    ['/openapi', '/x-svc-api-gateway/server/unknown', '/x-svc-api-gateway/server/listenPath/value']
  )
  t.ok(json.faults.every(({ message }: { message: string }) => message !== ''))
})

t.test('what is taken is refused with 409 and says by whom', async t => {
  const { call, folder } = await setUp(t)
  await writeFile(join(folder, 'f.json'), JSON.stringify(documentOf('f', '/f/')))
  t.match(await call('GET', '/svc/reload/'), { status: 200, text: '{"status":"ok","message":""}' })
  await call('POST', '/svc/apis/oas', documentOf('a', '/a/'))
  t.match(await call('POST', '/svc/apis/oas', documentOf('a', '/b/')), {
    status: 409,
    json: { message: 'Found API with the same ID' }
  })
  t.match(await call('POST', '/svc/apis/oas', documentOf('b', '/a')), {
    status: 409,
    json: { message: /\/a\/ of API b .* is taken by API a / }
  })
  t.match(await call('PUT', '/svc/apis/oas/f', documentOf('f', '/f/')), {
    status: 409,
    json: { message: /f\.json and cannot be changed/ }
  })
  t.match(await call('DELETE', '/svc/apis/oas/f'), { status: 409, json: { message: /f\.json and cannot be changed/ } })
})

t.test('a reload with a fault says which, with 422, and keeps the old state', async t => {
  const { call, folder, apis } = await setUp(t)
  await writeFile(join(folder, 'f.json'), JSON.stringify(documentOf('f', '/f/')))
  t.equal((await call('GET', '/svc/reload/group?block=true')).status, 200)
  await writeFile(join(folder, 'f.json'), '{')
  t.match(await call('GET', '/svc/reload?block=true'), {
    status: 422,
    json: { status: 'error', message: /f\.json: is not JSON/, faults: [/f\.json/] }
  })
  t.equal(apis.get('f')?.listenPath, '/f')
})

t.test('lists are paged when asked', async t => {
  const { call } = await setUp(t)
  for (const id of ['c', 'a', 'b']) await call('POST', '/svc/apis/oas', documentOf(id, `/${id}/`))
  const ids = async (query: string) =>
    (await call('GET', `/svc/apis/oas${query}`)).json.map(
      (document: ReturnType<typeof documentOf>) => document['x-svc-api-gateway'].info.id
    )
  t.same(await ids(''), ['a', 'b', 'c'])
  t.same(await ids('?p=1&page_size=2'), ['a', 'b'])
  t.same(await ids('?p=2&page_size=2'), ['c'])
  t.same(await ids('?p=9'), [])
  for (const query of ['?p=x', '?page_size=0', '?unknown=1'])
    t.equal((await call('GET', `/svc/apis/oas${query}`)).status, 400, query)
})

t.test('the schema accepts what the gateway accepts and refuses what it does not know', async t => {
  const { call } = await setUp(t)
  const { json } = await call('GET', '/svc/schema?oasVersion=3.0.3')
  const check = new Ajv2020({ strict: false }).compile(json)
  const extension = documentOf('a', '/a/')['x-svc-api-gateway']
  t.ok(check(extension))
  t.notOk(check({ ...extension, unknown: 1 }))
  t.equal((await call('GET', '/svc/schema?oasVersion=2.0')).status, 400)
})

t.test('integers come back digit by digit, as JSON and as YAML', async t => {
  const { call } = await setUp(t)
  const text = JSON.stringify(documentOf('a', '/a/', { 'x-maximum': [0] })).replace('[0]', '[9223372036854775807,1]')
  t.equal((await call('POST', '/svc/apis/oas', text)).status, 200)
  t.equal((await call('GET', '/svc/apis/oas/a')).text, text)
  t.equal((await call('GET', '/svc/apis/oas')).text, `[${text}]`)
  const yaml = await call('GET', '/svc/apis/oas/a', undefined, { Accept: 'application/yaml' })
  t.match(yaml.text, '- 9223372036854775807\n')
  t.equal((await call('PUT', '/svc/apis/oas/a', yaml.text, { 'Content-Type': 'application/yaml' })).status, 200)
  t.equal((await call('GET', '/svc/apis/oas/a')).text, text)
})
