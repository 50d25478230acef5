import t, { type Test } from 'tap'
import { changesFollowing } from '../../gateway/changes/changesFollowing.ts'
import { type Change, deletionsKept, type Kind, Unavailable } from '../../gateway/store/store.ts'
import { storeMemory } from '../../gateway/store/storeMemory.ts'
import { changesContract } from '../contract/changes.ts'
import { handClock } from '../helpers/clock.ts'
import { collectedLog } from '../helpers/gateway.ts'

changesContract(t, async () => changesFollowing({ store: storeMemory(), clock: handClock(), log: collectedLog() }))

const key = (id: string) => ({ kind: 'key' as const, id, org: 'o1', body: id })
const change = (sequence: number, id: string, deleted = false): Change => ({ sequence, kind: 'key', id, deleted })

/** Documents that others write too, and what is heard of them. */
async function following(t: Test) {
  const documents = storeMemory()
  const asked: (readonly Kind[] | undefined)[] = []
  let isAway = false
  const store = {
    async sequence() {
      if (isAway) throw new Unavailable('away')
      return documents.sequence()
    },
    async since(sequence: number, kinds?: readonly Kind[]) {
      asked.push(kinds)
      return documents.since(sequence, kinds)
    }
  }
  await documents.commit([key('before')])
  const clock = handClock()
  const log = collectedLog()
  const changes = await changesFollowing({ store, clock, log })
  t.teardown(() => changes.close())
  const heard: (readonly Change[] | null)[] = []
  changes.listen(all => void heard.push(all))
  return {
    documents,
    changes,
    log,
    asked,
    /** What was heard since the last call, a second later. */
    async heard() {
      await clock.move(1_000)
      for (let i = 0; i < 20; i++) await new Promise(resolve => setImmediate(resolve))
      await clock.move(1_000)
      return heard.splice(0)
    },
    away(is: boolean) {
      isAway = is
    }
  }
}

t.test('what others write is heard within a second, once, what was there before is not', async t => {
  const { documents, heard } = await following(t)
  t.strictSame(await heard(), [])
  await documents.commit([key('a'), key('b')])
  await documents.commit([{ kind: 'key', id: 'b', body: null }])
  const [all, ...more] = await heard()
  t.strictSame(
    [...all!].sort((a, b) => a.sequence - b.sequence),
    [change(2, 'a'), change(3, 'b', true)]
  )
  t.strictSame(more, [])
  t.strictSame(await heard(), [])
})

t.test('own writes are heard once, and those of others to the same document after them', async t => {
  const { documents, changes, heard } = await following(t)
  const sequence = await documents.commit([key('own')])
  await changes.publish([change(sequence, 'own')])
  t.strictSame(await heard(), [[change(2, 'own')]])
  await documents.commit([key('own')])
  t.strictSame(await heard(), [[change(3, 'own')]])
})

t.test('kinds that nobody holds in memory are not asked for', async t => {
  const { documents, heard, asked } = await following(t)
  const noise: readonly Kind[] = ['ledger', 'audit', 'revision']
  await documents.commit(noise.map(kind => ({ kind, id: 'x', org: '', body: 1 })))
  t.strictSame(await heard(), [])
  t.equal(asked.length, 1, 'and not again')
  for (const kind of noise) t.notOk(asked[0]!.includes(kind))
  await documents.commit([{ kind: 'user', id: 'u', org: '', body: 1 }])
  t.match(await heard(), [[{ kind: 'user', id: 'u' }]])
})

t.test('after an outage it goes on where it stood, and says each turn once', async t => {
  const { documents, heard, away, log } = await following(t)
  away(true)
  await documents.commit([key('a')])
  t.strictSame(await heard(), [])
  t.strictSame(await heard(), [])
  away(false)
  t.strictSame(await heard(), [[change(2, 'a')]])
  t.match(
    log.lines.map(({ level, msg }) => `${level} ${msg}`),
    ['error changes of other processes cannot be heard', 'info changes of other processes are heard again']
  )
})

t.test('what a listener cannot take over is told again', async t => {
  const { documents, changes, heard } = await following(t)
  let isFailing = true
  changes.listen(() => {
    if (isFailing) throw new Unavailable('away')
  })
  await documents.commit([key('a')])
  t.ok((await heard()).length > 0)
  t.ok((await heard()).length > 0, 'to all')
  isFailing = false
  t.strictSame(await heard(), [[change(2, 'a')]])
  t.strictSame(await heard(), [])
})

t.test('changes that cannot be told are heard as "everything"', async t => {
  const { documents, heard } = await following(t)
  const many = Array.from({ length: deletionsKept + 1 }, (_, i) => `${i}`)
  await documents.commit(many.map(key))
  for (const id of many) await documents.commit([{ kind: 'key', id, body: null }])
  t.strictSame(await heard(), [null])
  await documents.commit([key('a')])
  t.match(await heard(), [[{ id: 'a' }]])
})
