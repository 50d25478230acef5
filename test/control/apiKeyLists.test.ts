import t from 'tap'
import { api, gateway, rights } from '../helpers/gateway.ts'

const apis = [api('a1', 'svc://echo', { info: { dbId: '0123456789abcdef01234567' } }), api('a2', 'svc://echo')]

t.test('lists: pages, everything, parts of the id, keys of one API', async t => {
  const gw = await gateway(t, { apis })
  await gw.svc('POST', '/svc/policies', { id: 'p1', ...rights('a2') })
  const hashes: string[] = []
  for (let i = 0; i < 12; i++) hashes.push((await gw.api('POST', '/api/keys', rights('a1'))).body.key_hash)
  await gw.api('POST', '/api/keys/alice', { apply_policies: ['p1'] })
  const all = [...hashes, 'alice']
  const part = hashes[3]!.slice(10, 40)

  const ids: [string, string[], number][] = [
    ['/api/apis/keys', all.slice(0, 10), 2],
    ['/api/apis/keys?p=0', all.slice(0, 10), 2],
    ['/api/apis/keys?p=2', all.slice(10), 2],
    ['/api/apis/keys?p=9', [], 2],
    ['/api/apis/keys?p=-1', all, 1],
    ['/api/apis/keys?p=3&page_size=5', all.slice(10), 3],
    ['/api/apis/a1/keys', hashes.slice(0, 10), 2],
    ['/api/apis/a1/keys?p=2', hashes.slice(10), 2],
    ['/api/apis/a1/keys?p=-1', hashes, 1],
    ['/api/apis/0123456789abcdef01234567/keys?p=-1', hashes, 1],
    ['/api/apis/a2/keys', ['alice'], 1]
  ]
  for (const [path, keys, pages] of ids) t.strictSame((await gw.api('GET', path)).body, { data: { keys }, pages }, path)

  const detailed: [string, string[], number][] = [
    ['', all.slice(0, 10), 2],
    ['?p=2', all.slice(10), 2],
    ['?p=-1', all, 1],
    ['?p=-5&page_size=3', all, 1],
    ['?page_size=5&p=3', all.slice(10), 3],
    ['?q=lic', ['alice'], 1],
    ['?q=lic&p=2', [], 1],
    ['?q=lic&p=-1', ['alice'], 1],
    [`?q=${part}`, [hashes[3]!], 1],
    ['?q=', all.slice(0, 10), 2],
    ['?q=nothing', [], 0],
    ['?q=nothing&p=-1', [], 0],
    ['?q=%00', [], 0]
  ]
  for (const [query, keys, pages] of detailed) {
    const { status, body } = await gw.api('GET', `/api/keys/detailed${query}`)
    t.equal(status, 200)
    t.strictSame(
      body.keys.map(({ key_id }: { key_id: string }) => key_id),
      keys,
      query
    )
    t.equal(body.pages, pages, query)
  }

  const [first] = (await gw.api('GET', '/api/keys/detailed')).body.keys
  t.strictSame(Object.keys(first), ['api_model', 'data', 'key_hash', 'key_id'])
  t.match(first, { api_model: {}, key_hash: hashes[0], data: { access_rights: { a1: {} } } })
  const alice = (await gw.api('GET', '/api/keys/detailed?q=alice')).body.keys[0]
  t.strictSame(alice, (await gw.api('GET', '/api/keys/alice')).body, 'as it is read alone')

  const search = async (path: string) =>
    (await gw.api('GET', path)).body.map(({ key_id }: { key_id: string }) => key_id)
  t.strictSame(await search(`/api/apis/a1/keys/search?q=${part}`), [hashes[3]])
  t.strictSame(await search('/api/apis/a1/keys/search'), hashes)
  t.strictSame(await search('/api/apis/a1/keys/search?p=2'), hashes.slice(10))
  t.strictSame(await search('/api/apis/a2/keys/search?q=lic'), ['alice'])
  t.strictSame(await search('/api/apis/a2/keys/search?q=bob'), [])

  t.match(await gw.api('GET', '/api/apis/nothing/keys'), { status: 404, body: { Message: 'API not found' } })
  for (const path of ['/api/keys/detailed?p=x', '/api/apis/keys?p=1.5', '/api/apis/a1/keys?page_size=0'])
    t.equal((await gw.api('GET', path)).status, 400, path)
})

t.test('listing can be switched off while keys are hashed', async t => {
  const gw = await gateway(t, { apis, settings: { gateway: { enable_hashed_keys_listing: false } } })
  for (const path of ['/api/keys/detailed', '/api/apis/keys', '/api/apis/a1/keys', '/api/apis/a1/keys/search?q=a'])
    t.match(await gw.api('GET', path), { status: 404, body: { Message: 'Could not retrieve keys.' } }, path)
})
