import { join } from 'node:path'
import t from 'tap'
import { Conflict, Full, type Store } from '../../gateway/store/store.ts'
import { storeMemory } from '../../gateway/store/storeMemory.ts'
import { storeSplit } from '../../gateway/store/storeSplit.ts'
import { storeSqlite } from '../../gateway/store/storeSqlite.ts'
import { storeContract, unavailable } from '../contract/store.ts'

const log = { debug() {}, info() {}, warn() {}, error() {} }
const key = (id: string, body: unknown = id) => ({ kind: 'key' as const, id, org: 'o1', body })
const policy = (id: string, body: unknown = id) => ({ kind: 'policy' as const, id, org: 'o1', body })

storeContract(
  t,
  async () => storeSplit({ documents: storeMemory(), keys: storeMemory() }),
  store => (store as ReturnType<typeof storeSplit>).keys
)

t.test('keys lie in one store, everything else in the other, each with its own sequence', async t => {
  const store = storeSplit({ documents: storeMemory(), keys: storeMemory() })
  await store.commit([policy('p')])
  await store.commit([policy('q')])
  t.equal(await store.commit([key('k'), { kind: 'audit', id: 'a', org: 'o1', body: 1 }]), 1, 'that of the keys')
  t.equal(await store.sequence(), 3, 'that of the documents')
  t.match(await store.since(2), [{ kind: 'audit', id: 'a', sequence: 3 }])
  t.match(await store.keys.since(0), [{ kind: 'key', id: 'k', sequence: 1 }])
  t.equal(await store.documents.get('key', 'k'), null)
  t.equal(await store.keys.get('audit', 'a'), null)
  t.match(await store.list('key', { page: 1, size: 9 }), { total: 1, documents: [{ id: 'k' }] })
  t.equal(await store.commit([]), 3)
})

t.test('an expectation that either part refuses leaves nothing of both', async t => {
  const store = storeSplit({ documents: storeMemory(), keys: storeMemory() })
  await store.commit([key('k'), policy('p')])
  for (const writes of [
    [policy('q'), { ...key('k', 2), expect: 7 }],
    [key('l'), { ...policy('p', 2), expect: 7 }],
    [
      { ...key('l'), expect: 0 },
      { ...policy('p', 2), expect: 0 }
    ]
  ])
    t.ok((await store.commit(writes).catch((error: unknown) => error)) instanceof Conflict)
  for (const [kind, id] of [
    ['policy', 'q'],
    ['key', 'l']
  ] as const)
    t.equal(await store.get(kind, id), null)
  t.match([await store.get('key', 'k'), await store.get('policy', 'p')], [{ rev: 1 }, { rev: 1 }])
  await store.commit([
    { ...key('k', 2), expect: 1 },
    { ...policy('p', 2), expect: 1 },
    { ...policy('p', 3), expect: 2 }
  ])
  t.match(await store.get('policy', 'p'), { rev: 3 })
})

t.test('while a store does not answer, nothing goes into the other; what is not of it goes on', async t => {
  for (const away of ['documents', 'keys'] as const) {
    const parts: Record<'documents' | 'keys', Store> = { documents: storeMemory(), keys: storeMemory() }
    const store = storeSplit(parts)
    await parts[away].close()
    await unavailable(t, () => store.commit([key('k'), policy('p')]))
    await unavailable(t, () => store.sequence())
    await unavailable(t, () => store.commit([]))
    const [here, there] = away === 'keys' ? ([policy('p'), key('k')] as const) : ([key('k'), policy('p')] as const)
    t.equal(await store.get(here.kind, here.id), null)
    await store.commit([here])
    await unavailable(t, () => store.commit([there]))
  }
})

t.test('documents without room refuse with Full; keys alone go on', async t => {
  const documents = await storeSqlite({ path: join(t.testdir(), 'svc.db'), log, maxBytes: 256 * 1024 })
  const store = storeSplit({ documents, keys: storeMemory() })
  const much = { kind: 'audit' as const, id: 'a', org: 'o1', body: 'x'.repeat(512 * 1024) }
  t.ok((await store.commit([key('k'), much]).catch((error: unknown) => error)) instanceof Full)
  await store.commit([key('l')])
  await store.close()
})
