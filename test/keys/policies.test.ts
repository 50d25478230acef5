import { writeFile } from 'node:fs/promises'
import t from 'tap'
import { storeMemory } from '../../gateway/store/storeMemory.ts'
import { gate } from './gate.ts'

const json = JSON.stringify

t.test('a folder holds one policy, a list or a map a file, in JSON and YAML', async t => {
  const path = t.testdir({
    'gold.json': json({ rate: 5, per: 1, access_rights: { A: {} } }),
    'bare.json': json({ access_rights: { A: {} }, partitions: { acl: true } }),
    'list.yaml': '- id: one\n  rate: 1\n  per: 1\n- _id: two\n',
    'map.yml': 'silver:\n  quota_max: 3\nbronze:\n  id: bronze\n  org_id: o1\n',
    'notes.txt': 'no policy',
    '.hidden.json': '{'
  })
  const { ask, policies } = await gate(t, { gateway: { policies_path: path } })
  const files = await policies.read()
  t.strictSame(files.faults, [])
  t.equal((await ask('GET', '/policies/gold')).status, 404, 'nothing counts before it is taken')
  files.take()
  const ids = ((await ask('GET', '/policies')).body as unknown as { id: string }[]).map(({ id }) => id)
  t.strictSame(ids.sort(), ['bare', 'bronze', 'gold', 'one', 'silver', 'two'])
  t.match((await ask('GET', '/policies/gold')).body, { id: 'gold', _id: 'gold', org_id: 'default', rate: 5 })
  t.match((await ask('GET', '/policies/bronze')).body, { org_id: 'o1' })
  for (const method of ['PUT', 'DELETE'] as const) {
    const { status, body } = await ask(method, '/policies/gold', method === 'PUT' ? {} : undefined)
    t.equal(status, 409)
    t.match(body.message, /gold\.json and is read-only/)
  }
  t.equal((await ask('POST', '/policies', { id: 'gold' })).status, 409)
})

t.test('one file alone, and no path at all', async t => {
  const path = `${t.testdir({ 'all.json': json({ x: { rate: 1, per: 1 } }) })}/all.json`
  const { policies } = await gate(t, { gateway: { policies_path: path } })
  const files = await policies.read()
  files.take()
  t.match(await policies.get('x'), { rate: 1 })
  const none = await gate(t)
  t.strictSame((await none.policies.read()).faults, [])
})

t.test('every fault is told with its file, and the old state stays', async t => {
  const path = t.testdir({ 'gold.json': json({ rate: 5, per: 1, access_rights: { A: {} } }) })
  const store = storeMemory()
  const { ask, policies, call } = await gate(t, { store, gateway: { policies_path: path } })
  const first = await policies.read()
  first.take()
  await ask('POST', '/policies', { id: 'stored' })
  const { key } = (await ask('POST', '/keys/create', { apply_policies: ['gold'] })).body
  t.equal(await call(key, 'A'), 'passed')
  await writeFile(`${path}/gold.json`, '{')
  await writeFile(`${path}/shape.json`, json({ id: 'shape', rate: 'x', oops: 1 }))
  await writeFile(`${path}/stored.json`, '{}')
  await writeFile(`${path}/a b.json`, '{}')
  await writeFile(`${path}/twin1.json`, json({ id: 'twin' }))
  await writeFile(`${path}/twin2.yaml`, 'id: twin')
  await writeFile(`${path}/other.yaml`, 'a:\n  id: b\n')
  const { faults } = await policies.read()
  const all = faults.join('\n')
  for (const text of [
    /gold\.json: .*JSON/,
    /shape\.json: .*\/rate must be number/,
    /shape\.json: .*\/oops is not known here/,
    /stored\.json: policy stored stands in the store too/,
    /a b\.json: .*Invalid Policy ID/,
    /twin2\.yaml: policy twin stands in .*twin1\.json too/,
    /other\.yaml: policy a calls itself b/
  ]) {
    t.match(all, text)
  }
  t.equal(await call(key, 'A'), 'passed')
  const gone = await gate(t, { gateway: { policies_path: `${path}/nowhere` } })
  t.match((await gone.policies.read()).faults, [/nowhere/])
})

t.test('a folder that was read again counts for the next request', async t => {
  const path = t.testdir({ 'gold.json': json({ rate: 1, per: 60, access_rights: { A: {} } }) })
  const { ask, policies, call } = await gate(t, { gateway: { policies_path: path } })
  const first = await policies.read()
  first.take()
  const { key } = (await ask('POST', '/keys/create', { apply_policies: ['gold'] })).body
  await call(key, 'A')
  t.equal(await call(key, 'A'), 'rate')
  await writeFile(`${path}/gold.json`, json({ access_rights: { A: {} } }))
  const second = await policies.read()
  t.equal(await call(key, 'A'), 'rate')
  second.take()
  t.equal(await call(key, 'A'), 'passed')
})

t.test('a policy of another organisation does not make a key', async t => {
  const { ask } = await gate(t)
  await ask('POST', '/policies', { id: 'theirs', org_id: 'o1', access_rights: { A: {} } })
  t.match(await ask('POST', '/keys/create', { apply_policies: ['theirs'] }), {
    status: 400,
    body: { message: /another organisation/ }
  })
  t.equal((await ask('POST', '/keys/create', { org_id: 'o1', apply_policies: ['theirs'] })).status, 200)
})
