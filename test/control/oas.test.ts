import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import t from 'tap'
import { systemClock } from '../../config/world.ts'
import { parseYaml, toYaml } from '../../config/yaml.ts'
import { api, gateway } from '../helpers/gateway.ts'

const PATH = '/api/apis/oas'
const EXTENSION = 'x-svc-api-gateway'

function with404(path: string): [method: string, path: string, body?: unknown][] {
  return [
    ['GET', path],
    ['PUT', path, api('other', 'svc://echo')],
    ['DELETE', path],
    ['GET', `${path}/export`],
    ['GET', `${path}/urls`],
    ['GET', `${path}/revisions`],
    ['GET', `${path}/revisions/1`],
    ['POST', `${path}/revisions/1/restore`]
  ]
}

t.test('an API is created, read, replaced and deleted, and every step counts for the next request', async t => {
  const gw = await gateway(t)
  const made = await gw.api('POST', PATH, api('a', 'svc://echo'))
  t.match(made, { status: 200, body: { Status: 'OK', Message: 'API created', Meta: /^[0-9a-f]{24}$/, ID: 'a' } })
  t.equal(made.headers.get('etag'), '"1"')
  t.equal((await gw.get('/a/')).status, 200)
  const read = await gw.api('GET', `${PATH}/a`)
  t.equal(read.headers.get('etag'), '"1"')
  t.match(read.body, { openapi: '3.0.3', [EXTENSION]: { info: { id: 'a', dbId: made.body.Meta, orgId: 'default' } } })
  t.same((await gw.api('GET', `${PATH}/${made.body.Meta}`)).body, read.body, 'also by its database id')
  const moved = api('a', 'svc://echo', { server: { listenPath: { value: '/moved/' } }, info: { dbId: 'of my own' } })
  const put = await gw.api('PUT', `${PATH}/a`, moved)
  t.match(put, { status: 200, body: { Status: 'OK', Message: 'API updated.', Meta: made.body.Meta, ID: 'a' } })
  t.equal(put.headers.get('etag'), '"2"')
  t.equal((await gw.get('/a/')).status, 404)
  t.equal((await gw.get('/moved/')).status, 200)
  t.match(await gw.api('DELETE', `${PATH}/a`), {
    status: 200,
    body: { Status: 'OK', Message: 'API deleted.', Meta: null }
  })
  t.equal((await gw.get('/moved/')).status, 404)
  t.equal((await gw.api('GET', `${PATH}/a`)).status, 404)
})

t.test('documents come and go as JSON or YAML; an id is made where none is given', async t => {
  const gw = await gateway(t)
  const document: any = api('a', 'svc://echo', {}, { '/x.json': { get: { responses: {} } } })
  delete document[EXTENSION].info.id
  const made = await gw.api('POST', PATH, toYaml(document), { headers: { 'Content-Type': 'application/x-yaml' } })
  t.match(made, { status: 200, body: { ID: /^[0-9a-f]{32}$/ } })
  const path = `${PATH}/${made.body.ID}`
  const json = (await gw.api('GET', path)).body
  const yaml = await gw.api('GET', path, undefined, { headers: { Accept: 'application/yaml' } })
  t.equal(yaml.headers.get('content-type'), 'application/yaml')
  t.same(parseYaml(yaml.body), json)
  t.same(json.paths, document.paths)
  const put = await gw.api('PUT', path, yaml.body, { headers: { 'Content-Type': 'text/yaml' } })
  t.match(put, { status: 200, body: { Message: 'API updated.' } })
})

t.test('what is no API is refused and says why', async t => {
  const gw = await gateway(t, { apis: [api('a', 'svc://echo'), api('b', 'svc://echo')] })
  const { [EXTENSION]: _, ...plain } = api('c', 'svc://echo')
  const onPath = (id: string, value: string) => api(id, 'svc://echo', { server: { listenPath: { value } } })
  const cases: [method: string, path: string, body: unknown, status: number, message: string | RegExp][] = [
    ['POST', '', '{', 400, "Couldn't read body."],
    ['POST', '', '[]', 400, "Couldn't read body."],
    ['POST', '', '', 400, 'Failed to read response body, body empty'],
    ['POST', '', plain, 400, 'The payload should contain x-svc-api-gateway.'],
    ['PUT', '/a', plain, 400, 'The payload should contain x-svc-api-gateway.'],
    ['POST', '', { ...plain, 'x-svc-streaming': {}, [EXTENSION]: {} }, 400, /\/api\/apis\/streams/],
    ['POST', '', api('a', 'svc://echo'), 409, 'Found API with the same ID'],
    ['POST', '', onPath('c', '/a'), 409, /^Found API with same url\. .*by API a /],
    ['PUT', '/a', onPath('a', '/b/'), 409, /^Found API with same url\. .*by API b /],
    ['PUT', '/none', api('none', 'svc://echo'), 404, 'API definition does not exist'],
    ['PUT', '/a', api('c', 'svc://echo'), 400, /must match/],
    ['POST', '', api('c', '', { upstream: { url: '' } }), 400, /upstream\/url/],
    ['POST', '', api('c', 'svc://echo', { server: { surprise: 1 } }), 400, /surprise/],
    ['POST', '', api('c', 'svc://echo', { info: { orgId: 'other' } }), 403, /another organisation/],
    ['PUT', '/a', api('a', 'svc://echo', { info: { orgId: 'other' } }), 403, /another organisation/],
    ['POST', '', api('c', 'svc://echo', { info: { orgId: 7 } }), 400, /orgId/],
    ['POST', '?templateID=none', api('c', 'svc://echo'), 404, 'Asset not found.'],
    ['POST', '?surprise=1', api('c', 'svc://echo'), 400, /query/],
    ['GET', '/none', undefined, 404, 'Could not retrieve API detail.'],
    ['DELETE', '/none', undefined, 404, 'Could not retrieve API detail.'],
    ['GET', '/none/export', undefined, 404, 'Could not retrieve API detail.'],
    ['GET', '/none/urls', undefined, 404, 'API not found'],
    ['GET', '/a/export?mode=secret', undefined, 400, /query/]
  ]
  for (const [method, path, body, status, Message] of cases) {
    const answer = await gw.api(method, PATH + path, body)
    t.match(answer, { status, body: { Status: 'Error', Message, Meta: null } }, `${method} ${path} ${Message}`)
  }
})

t.test('an old revision in If-Match is refused with 412, for every way of writing', async t => {
  const gw = await gateway(t, { apis: [api('a', 'svc://echo')] })
  const old = { headers: { 'If-Match': '"1"' } }
  t.equal((await gw.api('PUT', `${PATH}/a`, api('a', 'svc://echo'), old)).status, 200)
  const calls: [method: string, path: string, body?: unknown][] = [
    ['PUT', `${PATH}/a`, api('a', 'svc://echo')],
    ['DELETE', `${PATH}/a`],
    ['POST', `${PATH}/a/revisions/1/restore`]
  ]
  for (const [method, path, body] of calls)
    t.match(await gw.api(method, path, body, old), { status: 412 }, `${method} ${path}`)
  t.equal((await gw.svc('PUT', '/svc/apis/oas/a', api('a', 'svc://echo'), { 'If-Match': '"1"' })).status, 412)
  t.equal((await gw.svc('GET', '/svc/apis/oas/a')).headers.get('etag'), '"2"')
  t.equal((await gw.api('DELETE', `${PATH}/a`, undefined, { headers: { 'If-Match': '"2"' } })).status, 200)
})

t.test('revisions are listed newest first, read and restored, whichever interface wrote them', async t => {
  const gw = await gateway(t)
  const titled = (title: string) => ({ ...api('a', 'svc://echo'), info: { title, version: '1' } })
  await gw.api('POST', PATH, titled('one'))
  await gw.svc('PUT', '/svc/apis/oas/a', titled('two'))
  await gw.api('PUT', `${PATH}/a`, titled('three'))
  const restored = await gw.api('POST', `${PATH}/a/revisions/1/restore`)
  t.match(restored, { status: 200, body: { Status: 'OK', Message: 'API updated.', ID: 'a' } })
  t.equal(restored.headers.get('etag'), '"4"')
  t.equal((await gw.api('GET', `${PATH}/a`)).body.info.title, 'one')
  const { revisions } = (await gw.api('GET', `${PATH}/a/revisions`)).body
  t.match(revisions, [
    { revision: 4, by: 'admin@example.com', summary: 'restored revision 1' },
    { revision: 3, summary: 'updated' },
    { revision: 2, by: 'gateway secret' },
    { revision: 1, summary: 'created' }
  ])
  t.equal((await gw.api('GET', `${PATH}/a/revisions/2`)).body.info.title, 'two')
  for (const n of ['5', '0', 'x']) t.equal((await gw.api('GET', `${PATH}/a/revisions/${n}`)).status, 404, n)
  await gw.api('DELETE', `${PATH}/a`)
  await gw.api('POST', PATH, titled('anew'))
  t.equal((await gw.api('GET', `${PATH}/a/revisions`)).body.revisions.length, 1, 'another API begins anew')
})

t.test('an update leaves its difference in the audit log', async t => {
  const gw = await gateway(t, { apis: [api('a', 'svc://echo')] })
  await gw.svc('PUT', '/svc/apis/oas/a', { ...api('a', 'svc://echo'), info: { title: 'new', version: '1' } })
  const { documents } = await gw.store.list<any>('audit', { page: 1, size: 100 })
  t.match(documents.at(-1)?.body.diff, [{ op: 'replace', path: '/info/title', value: 'new' }])
})

t.test('APIs of another organisation are neither seen nor touched nor named', async t => {
  const gw = await gateway(t)
  const key = await gw.user({ org_id: 'other', user_permissions: { IsAdmin: 'admin' } })
  await gw.api('POST', PATH, api('a', 'svc://echo', { info: { name: 'A secret name' } }))
  const { dbId } = (await gw.api('GET', `${PATH}/a`)).body[EXTENSION].info
  for (const id of ['a', dbId])
    for (const [method, path, body] of with404(`${PATH}/${id}`))
      t.match(await gw.api(method, path, body, { key }), { status: 404 }, `${method} ${path}`)
  for (const list of ['/api/apis', PATH, '/api/apis?p=-1'])
    t.same((await gw.api('GET', list, undefined, { key })).body, { apis: [], pages: 0 }, list)
  const same = api('mine', 'svc://echo', { server: { listenPath: { value: '/a/' } } })
  const taken = await gw.api('POST', PATH, same, { key })
  t.equal(taken.status, 409)
  t.notMatch(taken.body.Message, /secret|API a\b/)
  const own = await gw.api('POST', PATH, api('mine', 'svc://echo'), { key })
  t.equal(own.status, 200)
  t.equal((await gw.api('GET', `${PATH}/mine`, undefined, { key })).body[EXTENSION].info.orgId, 'other')
  t.equal((await gw.api('GET', `${PATH}/mine`)).status, 404)
})

t.test('lists filter, sort and page', async t => {
  let now = Date.UTC(2030, 0, 1)
  const gw = await gateway(t, { clock: { ...systemClock, now: () => now }, settings: { management: { page_size: 2 } } })
  const keyed = { authentication: { enabled: true, securitySchemes: { key: { enabled: true } } } }
  await gw.api('POST', PATH, api('one', 'svc://echo', { info: { name: 'Zebra' } }))
  now += 1000
  await gw.api('POST', PATH, api('two', 'svc://echo', { info: { name: 'ant' }, server: keyed }))
  now += 1000
  await gw.api('POST', PATH, api('three', 'svc://echo', { info: { name: 'Mole', state: { active: false } } }))
  now += 1000
  await gw.api('PUT', `${PATH}/one`, api('one', 'svc://echo', { info: { name: 'Zebra' } }))
  const cases: [query: string, ids: string[], pages: number][] = [
    ['', ['three', 'two'], 2],
    ['?p=0', ['three', 'two'], 2],
    ['?p=2', ['one'], 2],
    ['?p=3', [], 2],
    ['?p=-1', ['three', 'two', 'one'], 1],
    ['?page_size=3&sort=created_at', ['one', 'two', 'three'], 1],
    ['?page_size=3&sort=name', ['two', 'three', 'one'], 1],
    ['?page_size=3&sort=-name', ['one', 'three', 'two'], 1],
    ['?page_size=3&sort=-updated_at', ['one', 'three', 'two'], 1],
    ['?page_size=3&sort=updated_at', ['two', 'three', 'one'], 1],
    ['?q=ZEB', ['one'], 1],
    ['?q=/t', ['three', 'two'], 1],
    ['?q=nothing', [], 0],
    ['?auth_type=auth_token', ['two'], 1],
    ['?auth_type=keyless', ['three', 'one'], 1]
  ]
  for (const [query, ids, pages] of cases) {
    const entries = await gw.api('GET', `/api/apis${query}`)
    t.same([entries.body.apis.map(({ id }: any) => id), entries.body.pages], [ids, pages], `/api/apis${query}`)
    const documents = await gw.api('GET', PATH + query)
    t.same([documents.body.apis.map((each: any) => each[EXTENSION].info.id), documents.body.pages], [ids, pages])
  }
  const [entry] = (await gw.api('GET', '/api/apis?q=zebra')).body.apis
  t.match(entry, {
    db_id: /^[0-9a-f]{24}$/,
    org_id: 'default',
    type: 'oas',
    auth_type: 'keyless',
    listen_path: '/one/',
    active: true,
    source: 'store',
    revision: 2
  })
  t.equal(Date.parse(entry.updated_at) - Date.parse(entry.created_at), 3000)
  for (const query of ['?sort=surprise', '?p=x', '?page_size=0', '?api_type=classic'])
    t.equal((await gw.api('GET', `/api/apis${query}`)).status, 400, query)
})

t.test('a template lies under the document, but does not say who the API is', async t => {
  const gw = await gateway(t)
  const data = api('original', 'svc://echo', {
    server: { listenPath: { value: '/template/', strip: true } },
    info: { dbId: 'd', orgId: 'elsewhere' },
    middleware: {
      global: { transformResponseHeaders: { enabled: true, add: [{ name: 'X-From', value: 'template' }] } }
    }
  })
  const asset = await gw.api('POST', '/api/assets', { id: 'tpl', kind: 'oas-template', name: 'tpl', data })
  t.equal(asset.status, 201)
  const document = {
    openapi: '3.0.3',
    info: { title: 'own', version: '2', description: null },
    [EXTENSION]: { info: { name: 'own', state: { active: true } }, server: { listenPath: { value: '/own/' } } }
  }
  for (const id of ['tpl', asset.body.Meta]) {
    const made = await gw.api('POST', `${PATH}?templateID=${id}`, document)
    t.match(made, { status: 200, body: { ID: /^[0-9a-f]{32}$/ } })
    t.equal((await gw.get('/own/')).headers.get('x-from'), 'template')
    const { info, [EXTENSION]: extension } = (await gw.api('GET', `${PATH}/${made.body.ID}`)).body
    t.same(info, { title: 'own', version: '2', description: null })
    t.match(extension, {
      info: { orgId: 'default', name: 'own' },
      server: { listenPath: { value: '/own/', strip: true } }
    })
    await gw.api('DELETE', `${PATH}/${made.body.ID}`)
  }
})

t.test('a template is for those who may read assets', async t => {
  const gw = await gateway(t)
  const data = api('original', 'svc://echo')
  await gw.api('POST', '/api/assets', { id: 'tpl', kind: 'oas-template', name: 'tpl', data })
  const forbidden = {
    status: 403,
    body: { Message: 'access denied: You do not have permission to access  /api/assets/tpl' }
  }
  for (const [more, status] of [
    [{}, 403],
    [{ api_assets: 'deny' }, 403],
    [{ IsAdmin: 'admin', api_assets: 'deny' }, 403],
    [{ api_assets: 'read' }, 200]
  ] as const) {
    const key = await gw.user({ org_id: 'default', user_permissions: { apis: 'write', ...more } })
    for (const path of [`${PATH}/dry-run`, `${PATH}/import`, PATH]) {
      const own =
        path === PATH ? api('own', 'svc://echo') : { openapi: '3.0.3', info: { title: path, version: '1' }, paths: {} }
      const listenPath = path === PATH ? '' : `&listenPath=${path}/`
      const told = await gw.api('POST', `${path}?templateID=tpl${listenPath}`, own, { key })
      t.match(told, status === 403 ? forbidden : { status }, `${path} ${JSON.stringify(more)}`)
    }
    t.equal((await gw.api('POST', `${PATH}/dry-run?templateID=none`, {}, { key })).status, status === 403 ? 403 : 404)
  }
})

t.test('an export is a file, with the extension or without', async t => {
  const gw = await gateway(t, { apis: [api('a', 'svc://echo')] })
  const cases: [path: string, accept: string, name: string, extension: boolean][] = [
    [`${PATH}/a/export`, '*/*', 'SvcOasApiDef-a.json', true],
    [`${PATH}/a/export?mode=public`, '*/*', 'oas-a.json', false],
    [`${PATH}/a/export?mode=public`, 'application/yaml', 'oas-a.yaml', false],
    ['/svc/apis/oas/a/export', '*/*', 'SvcOasApiDef-a.json', true],
    ['/svc/apis/oas/a/export?mode=public', '*/*', 'oas-a.json', false],
    ['/svc/apis/oas/export', '*/*', 'SvcOasApiDef.json', true],
    ['/svc/apis/oas/export?mode=public', 'text/yaml', 'oas.yaml', false]
  ]
  for (const [path, Accept, name, extension] of cases) {
    const { status, headers, body } = path.startsWith('/svc')
      ? await gw.svc('GET', path, undefined, { Accept })
      : await gw.api('GET', path, undefined, { headers: { Accept } })
    t.equal(status, 200, path)
    t.equal(headers.get('content-disposition'), `attachment; filename="${name}"`)
    t.equal(headers.get('content-type'), Accept === '*/*' ? 'application/octet-stream' : 'application/yaml')
    const document = [parseYaml(body)].flat()[0] as object
    t.equal(EXTENSION in document, extension, path)
    t.ok('openapi' in document)
  }
})

t.test('the addresses of an API are told as they are bound', async t => {
  const gw = await gateway(t)
  const port = Number(new URL(gw.url).port)
  const cases: [id: string, server: object, domain: string, listenPath: string][] = [
    ['plain', {}, '127.0.0.1', 'plain'],
    ['deep', { listenPath: { value: '/one/two' } }, '127.0.0.1', 'one/two'],
    ['root', { listenPath: { value: '/' } }, '127.0.0.1', ''],
    ['free', { listenPath: { value: '/of/{name}/' } }, '127.0.0.1', 'of/{name}'],
    ['own', { customDomain: { enabled: true, name: 'API.Example' } }, 'api.example', 'own'],
    ['off', { customDomain: { enabled: false, name: 'off.example' } }, '127.0.0.1', 'off']
  ]
  for (const [id, server, domain, listen_path] of cases) {
    await gw.api('POST', PATH, api(id, 'svc://echo', { server }))
    t.same((await gw.api('GET', `${PATH}/${id}/urls`)).body, {
      api_id: id,
      urls: [
        {
          protocol: 'http',
          domain,
          port,
          listen_path,
          endpoint_path: '',
          query_parameters: [],
          headers: [],
          url: `http://${domain}:${port}${listen_path === '' ? '' : `/${listen_path}`}`
        }
      ]
    })
  }
})

t.test('APIs of the folder are read and listed, and cannot be written; no path of the machine is told', async t => {
  const folder = t.testdir({ 'kept.json': JSON.stringify(api('f', 'svc://echo')) })
  const gw = await gateway(t, { settings: { gateway: { app_path: folder } } })
  t.equal((await gw.api('GET', `${PATH}/f`)).status, 200)
  t.match((await gw.api('GET', '/api/apis')).body.apis, [
    { id: 'f', source: 'kept.json', revision: 0, created_at: null }
  ])
  t.same((await gw.api('GET', `${PATH}/f/revisions`)).body, { revisions: [] })
  const calls: [method: string, path: string, body?: unknown][] = [
    ['PUT', '/f', api('f', 'svc://echo')],
    ['DELETE', '/f'],
    ['POST', '', api('g', 'svc://echo', { server: { listenPath: { value: '/f/' } } })]
  ]
  for (const [method, path, body] of calls) {
    const answer = await gw.api(method, PATH + path, body)
    t.equal(answer.status, 409, method)
    t.match(answer.body.Message, /kept\.json/)
    t.notOk(JSON.stringify(answer.body).includes(folder))
  }
})

t.test(
  'dots of paths lie escaped while the setting is on, are never shown so, and no API is lost by switching',
  async t => {
    const folder = mkdtempSync(join(tmpdir(), 'svc-dots-'))
    t.teardown(() => rmSync(folder, { recursive: true, force: true }))
    const paths = { '/a.b/{c.d}': { get: { operationId: 'x.y', responses: {} } }, '/plain': {} }
    const sent = { '/a\\u002eb/{c\\u002Ed}': paths['/a.b/{c.d}'], '/plain': {} }
    const escaped = ['/a\\u002eb/{c\\u002ed}', '/plain']
    const open = (on: boolean) =>
      gateway(t, {
        settings: {
          storage: { documents: { type: 'sqlite', path: join(folder, 'svc.db') } },
          management: { escape_dots_in_oas_paths: on }
        }
      })
    let last = 0
    let key = ''
    for (const on of [true, false, true]) {
      const gw = await open(on)
      key ||= await gw.user({ org_id: 'default', user_permissions: { IsAdmin: 'admin' } })
      const call = async (method: string, path: string, document?: unknown) => {
        const headers = { Authorization: key, 'Content-Type': 'application/json' }
        const body = document === undefined ? null : JSON.stringify(document)
        const answer = await fetch(gw.managementUrl + PATH + path, { method, headers, body })
        return { status: answer.status, body: (await answer.json()) as any }
      }
      for (let i = 1; i <= last; i++) t.same((await call('GET', `/a${i}`)).body.paths, paths, `a${i} with ${on}`)
      const id = `a${++last}`
      t.equal((await call('POST', '', api(id, 'svc://echo', {}, last === 2 ? sent : paths))).status, 200)
      t.same((await call('GET', `/${id}`)).body.paths, paths)
      t.equal((await gw.get(`/${id}/a.b/1`)).status, 200)
      const stored = (await gw.store.get<any>('api', id))!.body.document
      t.same(Object.keys(stored.paths), on ? escaped : Object.keys(paths))
      t.equal(stored.paths[on ? escaped[0]! : '/a.b/{c.d}'].get.operationId, 'x.y', 'only keys of paths')
      const revision = (await gw.store.get<any>('revision', `api/${id}/1`))!.body.document
      t.same(Object.keys(revision.paths), Object.keys(stored.paths))
      t.same((await call('GET', '/a1/revisions/1')).body.paths, paths)
      if (last > 1) t.equal((await call('POST', '/a1/revisions/1/restore')).status, 200)
      const same = Object.keys((await gw.store.get<any>('api', 'a1'))!.body.document.paths)
      t.same(same, on ? escaped : Object.keys(paths), 'a restored one lies as the setting says now')
      await gw.stop()
    }
  }
)

t.test('one path in both spellings is a fault', async t => {
  const gw = await gateway(t)
  const twice = api('a', 'svc://echo', {}, { '/a.b': {}, '/a\\u002eb': {} })
  t.match(await gw.api('POST', PATH, twice), { status: 400, body: { faults: [{ message: 'stands there twice' }] } })
})

t.test('of writers at the same time none is lost', async t => {
  const gw = await gateway(t)
  await gw.api('POST', PATH, api('a', 'svc://echo'))
  const others = Array.from({ length: 20 }, (_, i) => gw.api('POST', PATH, api(`b${i}`, 'svc://echo')))
  const same = Array.from({ length: 20 }, () => gw.api('PUT', `${PATH}/a`, api('a', 'svc://echo')))
  for (const { status } of await Promise.all([...others, ...same])) t.equal(status, 200)
  t.equal((await gw.api('GET', '/api/apis?p=-1')).body.apis.length, 21)
  t.equal((await gw.api('GET', `${PATH}/a`)).headers.get('etag'), '"21"')
})

t.test('no API takes an id that leads to another', async t => {
  const gw = await gateway(t)
  const { body } = await gw.api('POST', '/api/apis/oas', api('victim', 'svc://echo'))
  const squatter = await gw.svc('POST', '/svc/apis/oas', api(body.Meta, 'svc://echo'))
  t.equal(squatter.status, 409)
  const other = api('other', 'svc://echo', { info: { dbId: 'victim' } })
  t.equal((await gw.svc('POST', '/svc/apis/oas', other)).status, 409)
  t.equal((await gw.api('GET', `/api/apis/oas/${body.Meta}`)).body['x-svc-api-gateway'].info.id, 'victim')
})
