import { mkdir, rm, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import t, { type Test } from 'tap'
import type { Log } from '../../config/world.ts'
import { toYaml } from '../../config/yaml.ts'
import { ApiRefused, type ApisGiven, apis } from '../../gateway/apis.ts'
import { changesLocal } from '../../gateway/changes/changesLocal.ts'
import { storeMemory } from '../../gateway/store/storeMemory.ts'

function documentOf(id: string | undefined, listenPath: string, more: { info?: object; server?: object } = {}) {
  return {
    openapi: '3.0.3',
    info: { title: 'test', version: '1' },
    paths: {},
    'x-svc-api-gateway': {
      info: { ...(id === undefined ? {} : { id }), name: `name of ${id}`, state: { active: true }, ...more.info },
      upstream: { url: 'svc://echo' },
      server: { listenPath: { value: listenPath }, ...more.server }
    }
  }
}

function setUp(t: Test, given: Partial<ApisGiven> = {}) {
  const errors: string[] = []
  const nothing = () => {}
  const log: Log = { debug: nothing, info: nothing, warn: nothing, error: msg => void errors.push(msg) }
  const store = given.store ?? storeMemory()
  const changes = given.changes ?? changesLocal()
  const random = { bytes: (count: number) => Buffer.alloc(count, 0xab) }
  const all = apis({ store, changes, log, random, folder: '', matching: 'exact', ...given })
  const heard: string[] = []
  all.onChange((changed, removed) => void heard.push(`+${changed.map(({ id }) => id)} -${removed}`))
  t.teardown(() => all.close())
  return { apis: all, store, changes, errors, heard }
}

/** Why a write was refused: the reason, or the class of the error. */
async function refusal(write: Promise<unknown>): Promise<string> {
  try {
    await write
  } catch (cause) {
    return cause instanceof ApiRefused ? cause.reason : (cause as Error).constructor.name
  }
  return 'none'
}

t.test('a saved API is there once its listeners have taken it over', async t => {
  const { apis, store, heard } = setUp(t)
  let served = false
  apis.onChange(async () => {
    await new Promise(resolve => setImmediate(resolve))
    served = true
  })
  const document = documentOf('a', '/a/')
  const api = await apis.save(document, null)
  t.ok(served)
  t.same(apis.get('a')?.document, document)
  t.equal(api.id, 'a')
  t.match(await store.get('api', 'a'), { org: 'default', rev: 1, body: document })
  await apis.save(documentOf('a', '/b/'), 'a')
  t.equal(apis.get('a')?.listenPath, '/b')
  await apis.remove('a')
  t.equal(apis.get('a'), null)
  t.equal(await store.get('api', 'a'), null)
  t.same(heard, ['+a -', '+a -', '+ -a'])
})

t.test('an API without an id gets one, and its stored document holds it', async t => {
  const { apis, store } = setUp(t)
  const { id } = await apis.save(documentOf(undefined, '/a/'), null)
  t.match(id, /^[0-9a-f]{12}4[0-9a-f]{3}[89ab][0-9a-f]{15}$/)
  t.match(await store.get('api', id), { body: { 'x-svc-api-gateway': { info: { id } } } })
  await apis.save(documentOf(undefined, '/b/'), id)
  t.equal(apis.get(id)?.listenPath, '/b', 'one that is replaced keeps its id')
})

t.test('what cannot be written is refused and changes nothing', async t => {
  const { apis, store, heard } = setUp(t)
  await apis.save(documentOf('a', '/a/'), null)
  t.equal(await refusal(apis.save(documentOf('a', '/x/'), null)), 'id taken')
  t.equal(await refusal(apis.save(documentOf('b', '/a'), null)), 'path taken')
  t.equal(await refusal(apis.save(documentOf('b', '/a/'), 'a')), 'other id')
  t.equal(await refusal(apis.save(documentOf('b', '/b/'), 'b')), 'unknown')
  t.equal(await refusal(apis.save(documentOf('b', 'b'), null)), 'Invalid')
  t.equal(await refusal(apis.remove('b')), 'unknown')
  t.equal(await store.sequence(), 1)
  t.same(heard, ['+a -'])
})

t.test(
  'a listen path is taken on its host alone, by routed APIs alone, whatever its placeholders are called',
  async t => {
    const { apis } = setUp(t)
    const on = (name: string) => ({ server: { customDomain: { enabled: true, name } } })
    const is = (state: object) => ({ info: { state } })
    await apis.save(documentOf('a', '/x/{v}/'), null)
    await apis.save(documentOf('b', '/x/{v}/', on('b.example')), null)
    t.equal(await refusal(apis.save(documentOf('c', '/x/{w}', on('B.example')), null)), 'path taken')
    await apis.save(documentOf('c', '/x/{w}', is({ active: false })), null)
    await apis.save(documentOf('d', '/x/{w}', is({ active: true, internal: true })), null)
    t.equal(await refusal(apis.save(documentOf('c', '/x/{w}'), 'c')), 'path taken')
    await apis.save(documentOf('e', '/x/v'), null)
    t.same(
      apis.all().map(({ id }) => id),
      ['a', 'b', 'c', 'd', 'e']
    )
  }
)

t.test('of writers at the same time that want one listen path, one gets it', async t => {
  const { apis } = setUp(t)
  const results = await Promise.allSettled(
    Array.from({ length: 20 }, (_, i) => apis.save(documentOf(`a${i}`, '/a/'), null))
  )
  t.equal(results.filter(({ status }) => status === 'fulfilled').length, 1)
  t.equal(apis.all().length, 1)
})

t.test('folder and store are read together', async t => {
  const folder = t.testdir({
    'a.json': JSON.stringify(documentOf('a', '/a/')),
    'b.yaml': toYaml(documentOf('b', '/b/')),
    'c.yml': toYaml(documentOf('c', '/c/')),
    'notes.txt': 'no document',
    '.hidden.json': '{'
  })
  const { apis, store, heard } = setUp(t, { folder })
  await store.commit([{ kind: 'api', id: 's', org: 'default', body: documentOf('s', '/s/') }])
  t.same(await apis.load(), [])
  t.same(
    apis.all().map(({ id, source }) => [id, source]),
    [
      ['a', join(folder, 'a.json')],
      ['b', join(folder, 'b.yaml')],
      ['c', join(folder, 'c.yml')],
      ['s', 'store']
    ]
  )
  t.equal(await refusal(apis.save(documentOf('a', '/z/'), 'a')), 'file')
  t.equal(await refusal(apis.remove('a')), 'file')
  t.equal(await refusal(apis.save(documentOf('a', '/z/'), null)), 'id taken')
  t.same(await apis.load(), [])
  t.same(heard, ['+a,b,c,s -'], 'what did not change is not told again')
  await writeFile(join(folder, 'a.json'), JSON.stringify(documentOf('a', '/z/')))
  await rm(join(folder, 'b.yaml'))
  t.same(await apis.load(), [])
  t.same(heard.slice(1), ['+a -b'])
})

t.test('every fault of a folder is told with its file, and the old state stays', async t => {
  const folder = t.testdir({ 'a.json': JSON.stringify(documentOf('a', '/a/')) })
  const { apis, store } = setUp(t, { folder })
  await apis.load()
  await apis.save(documentOf('s', '/s/'), null)
  await writeFile(join(folder, 'b.json'), '{"openapi":')
  await writeFile(join(folder, 'c.yaml'), 'a: 1\na: 2')
  await writeFile(join(folder, 'd.json'), JSON.stringify(documentOf(undefined, '/d/')))
  await writeFile(join(folder, 'e.json'), JSON.stringify(documentOf('e', '/a')))
  await writeFile(join(folder, 'f.json'), JSON.stringify(documentOf('a', '/f/')))
  await writeFile(join(folder, 's.json'), JSON.stringify(documentOf('s', '/t/')))
  await mkdir(join(folder, 'g.json'))
  const faults = await apis.load()
  const expected = [
    /b\.json: is not JSON/,
    /c\.yaml: \/a stands there twice/,
    /d\.json: .*\/info\/id is required/,
    /\/a\/ .*e\.json.* is taken by .*a\.json/,
    /API a is in .*a\.json and in .*f\.json/,
    /g\.json: /,
    /API s is in .*s\.json and in store/
  ]
  t.equal(faults.length, expected.length)
  for (const fault of expected)
    t.ok(
      faults.some(text => fault.test(text)),
      String(fault)
    )
  t.same(
    apis.all().map(({ id }) => id),
    ['a', 's']
  )
  await store.close()
})

t.test('a missing folder is a fault', async t => {
  const { apis } = setUp(t, { folder: join(t.testdir(), 'none') })
  t.match(await apis.load(), [/none: ENOENT/])
})

t.test('a stored document that cannot be read is logged and left out', async t => {
  const { apis, store, errors } = setUp(t)
  await store.commit([
    { kind: 'api', id: 'old', org: 'default', body: { openapi: '2.0' } },
    { kind: 'api', id: 'a', org: 'default', body: documentOf('a', '/a/') }
  ])
  t.same(await apis.load(), [])
  t.same(
    apis.all().map(({ id }) => id),
    ['a']
  )
  t.same(errors, ['API left out: its document has faults'])
})

t.test('what another process wrote is taken over when it is heard of', async t => {
  const { apis, store, changes, errors, heard } = setUp(t)
  const write = async (id: string, body: unknown) => {
    const sequence = await store.commit([
      body === null ? { kind: 'api', id, body } : { kind: 'api', id, org: 'default', body }
    ])
    await changes.publish([{ sequence, kind: 'api', id, deleted: body === null }])
  }
  await write('a', documentOf('a', '/a/'))
  await write('b', documentOf('b', '/a/'))
  t.same(errors, ['API left out: its listen path is taken'])
  await write('b', documentOf('b', '/b/'))
  await write('a', null)
  await changes.publish([{ sequence: 9, kind: 'key', id: 'b', deleted: true }])
  t.same(
    apis.all().map(({ id }) => id),
    ['b']
  )
  t.same(heard, ['+a -', '+b -', '+ -a'])
})

t.test('a write by another process meanwhile is not overwritten', async t => {
  const { apis, store } = setUp(t)
  await apis.save(documentOf('a', '/a/'), null)
  await store.commit([{ kind: 'api', id: 'a', org: 'default', body: documentOf('a', '/other/') }])
  t.equal(await refusal(apis.save(documentOf('a', '/b/'), 'a')), 'Conflict')
  t.match(await store.get('api', 'a'), { rev: 2 })
})

t.test('many APIs are read without keeping other work waiting', async t => {
  const { apis, store } = setUp(t)
  await store.commit(
    Array.from(
      { length: 1000 },
      (_, i) => ({ kind: 'api', id: `a${i}`, org: 'default', body: documentOf(`a${i}`, `/a${i}/`) }) as const
    )
  )
  let turns = 0
  let ended = false
  const count = () => {
    turns++
    if (!ended) setImmediate(count)
  }
  setImmediate(count)
  t.same(await apis.load(), [])
  ended = true
  t.equal(apis.all().length, 1000)
  t.ok(turns > 1, 'others had their turns')
})

t.test('paths that other processes have passed on are taken over, also after changes were missed', async t => {
  const { apis, store, changes, errors } = setUp(t)
  const paths = () => apis.all().map(({ id, listenPath }) => `${id} ${listenPath}`)
  const write = (id: string, path: string) =>
    store.commit([{ kind: 'api', id, org: 'default', body: documentOf(id, path) }])
  for (const id of ['a', 'b', 'c']) await apis.save(documentOf(id, `/${id}/`), null)
  await write('b', '/free/')
  await write('a', '/b/')
  const sequence = await write('b', '/a/')
  await changes.publish(['a', 'b'].map(id => ({ sequence, kind: 'api', id, deleted: false }) as const))
  t.same(paths(), ['a /b', 'b /a', 'c /c'])
  await write('c', '/free/')
  await write('a', '/c/')
  await store.commit([{ kind: 'api', id: 'b', body: null }])
  await write('d', '/a/')
  await changes.publish(null)
  t.same(paths(), ['a /c', 'c /free', 'd /a'])
  t.equal(await refusal(apis.save(documentOf('e', '/free/'), null)), 'path taken')
  await apis.save(documentOf('e', '/b/'), null)
  t.same(errors, [])
})

t.test('times and database ids are known of what was kept with them, and of nothing else', async t => {
  const { apis, store } = setUp(t)
  const info = { dbId: '0123456789abcdef01234567' }
  await apis.save(documentOf('a', '/a/', { info }), null, { at: 1000 })
  await apis.save(documentOf('a', '/a/', { info }), 'a', { at: 2000 })
  await store.commit([{ kind: 'api', id: 'b', org: 'default', body: documentOf('b', '/b/') }])
  await apis.load()
  t.match(apis.rows(), [
    { api: { id: 'a' }, rev: 2, created: 1000, updated: 2000 },
    { api: { id: 'b' }, rev: 1, created: null, updated: null }
  ])
  t.equal(apis.find(info.dbId)?.id, 'a')
  t.same(apis.get('a')?.document, documentOf('a', '/a/', { info }))
  await apis.remove('a')
  t.equal(apis.find(info.dbId), null)
  t.equal(apis.find(''), null)
})
