import t from 'tap'
import type { Policy } from '../../config/shape/policy.ts'
import { PolicyIndex } from '../../control/policyIndex.ts'
import { type Store, Unavailable } from '../../gateway/store/store.ts'
import { storeMemory } from '../../gateway/store/storeMemory.ts'

const write = (store: Store, id: string, body: Policy | null, org = 'a') =>
  store.commit([body === null ? { kind: 'policy', id, body } : { kind: 'policy', id, org, body: { id, ...body } }])

t.test('the index is never behind a commit: created, changed, moved, deleted, created again', async t => {
  const store = storeMemory()
  const index = new PolicyIndex(store)
  const told = async (org: string | null) => (await index.of(org)).map(({ id, name }) => `${id}${name}`).join(' ')
  t.equal(await told('a'), '')
  for (const id of ['p', 'q', 'r']) await write(store, id, { name: '1' })
  t.equal(await told('a'), 'p1 q1 r1')
  await write(store, 'q', { name: '2' })
  await store.commit([{ kind: 'key', id: 'k', org: 'a', body: {} }])
  t.equal(await told('a'), 'p1 q2 r1')
  await write(store, 'p', { name: '3' }, 'b')
  t.same([await told('a'), await told('b'), await told(null)], ['q2 r1', 'p3', 'p3 q2 r1'])
  await write(store, 'q', null)
  t.equal(await told('a'), 'r1')
  await write(store, 'q', { name: '4' })
  await write(store, 'r', null)
  await write(store, 'r', { name: '5' })
  t.equal(await told('a'), 'q4 r5')
  const both = await Promise.all([write(store, 's', { name: '6' }).then(() => told('a')), told('a')])
  t.equal(both[0], 'q4 r5 s6')
})

t.test('what failed once is caught up with, and forgotten changes mean reading all of it', async t => {
  const store = storeMemory()
  let failing = false
  let forgotten = false
  const index = new PolicyIndex({
    ...store,
    since: (...given) => (forgotten ? Promise.resolve(null) : store.since(...given)),
    sequence: () => (failing ? Promise.reject(new Unavailable()) : store.sequence())
  })
  const ids = async () => (await index.of('a')).map(({ id }) => id)
  await write(store, 'p', {})
  t.same(await ids(), ['p'])
  await write(store, 'q', {})
  failing = true
  await t.rejects(ids())
  failing = false
  t.same(await ids(), ['p', 'q'])
  forgotten = true
  await write(store, 'p', null)
  await write(store, 'r', {})
  t.same(await ids(), ['q', 'r'])
})
