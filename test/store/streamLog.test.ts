import t from 'tap'
import { Full, Unavailable } from '../../gateway/store/store.ts'
import { storeMemory } from '../../gateway/store/storeMemory.ts'
import { streamLog } from '../../gateway/store/streamLog.ts'
import { type Kept, NotWritten } from '../../streams/brokers/durableLog.ts'

const nothing: Kept = { topics: [], segments: [], groups: [] }
const everything = { page: -1, size: 1 } as const
const segment = (base: number, count: number, bytes = 1) => {
  const records = Array.from({ length: count }, (_, i) => ({
    key: null,
    value: Buffer.alloc(bytes, base + i),
    headers: [],
    timestamp: base + i
  }))
  return { topic: 'a', partition: 0, base, records }
}

t.test('a long write lies in documents of a bearable size, and comes back in order', async t => {
  const store = storeMemory()
  const log = streamLog(store)
  await log.load('b')
  const records = segment(0, 40, 100_000)
  const one = segment(40, 1, 3_000_000)
  await log.write('b', { ...nothing, segments: [records, one] })
  const { documents } = await store.list('stream_log', everything)
  t.equal(documents.length, 6 + 1)
  for (const { body } of documents.slice(0, 6)) t.ok(JSON.stringify(body).length < 1_100_000)
  const { segments } = await streamLog(store).load('b')
  t.strictSame(
    segments.flatMap(({ base, records }) => records.map(({ timestamp }, i) => [base + i, timestamp])),
    Array.from({ length: 41 }, (_, i) => [i, i])
  )
  t.equal(segments.at(-1)!.records[0]!.value!.length, 3_000_000)
})

t.test('documents that are left are written again; of many, the most are deleted', async t => {
  const store = storeMemory()
  const log = streamLog(store)
  await log.load('b')
  for (let i = 0; i < 300; i++) await log.write('b', { ...nothing, segments: [segment(i, 1)] })
  await log.write('b', { ...nothing, topics: [{ topic: 'a', lows: [299] }] })
  const total = async () => (await store.list('stream_log', everything)).total
  t.equal(await total(), 1 + 1 + 100)
  for (let i = 0; i < 100; i++) await log.write('b', { ...nothing, segments: [segment(300 + i, 1)] })
  t.equal(await total(), 1 + 1 + 100)
  const again = streamLog(store)
  const { topics, segments } = await again.load('b')
  t.strictSame(topics, [{ topic: 'a', lows: [299] }])
  t.strictSame(
    segments.map(({ base }) => base),
    Array.from({ length: 101 }, (_, i) => 299 + i)
  )
  await again.write('b', { ...nothing, segments: [segment(400, 1)] })
  t.equal((await streamLog(store).load('b')).segments.length, 102, 'no document of others is taken')
})

t.test('brokers are apart, groups replace and are forgotten', async t => {
  const store = storeMemory()
  const log = streamLog(store)
  await Promise.all([log.load('b'), log.load('b2')])
  const commits = (offset: number) => [{ topic: 'a', partition: 0, offset }]
  const group = (offset: number) => ({ ...nothing, groups: [{ group: 'g/ü', commits: commits(offset) }] })
  await Promise.all([log.write('b', group(1)), log.write('b2', group(7))])
  await log.write('b', group(2))
  t.strictSame(await log.load('b'), group(2))
  await log.write('b', { ...nothing, groups: [{ group: 'g/ü', commits: [] }] })
  t.strictSame(await log.load('b'), nothing)
  t.strictSame(await log.load('b2'), group(7))
})

t.test('after a failed write the log is as it is found in the store', async t => {
  const store = storeMemory()
  let isAway = false
  const log = streamLog({
    ...store,
    commit: writes => (isAway ? Promise.reject(new Error('away')) : store.commit(writes))
  })
  await log.load('b')
  await log.write('b', { ...nothing, segments: [segment(0, 2)] })
  isAway = true
  await t.rejects(log.write('b', { ...nothing, segments: [segment(2, 2)], topics: [{ topic: 'a', lows: [2] }] }))
  isAway = false
  t.match((await log.load('b')).segments, [{ base: 0, records: [{ timestamp: 0 }, { timestamp: 1 }] }])
  await log.write('b', { ...nothing, segments: [segment(2, 1)] })
  t.strictSame(
    (await log.load('b')).segments.map(({ base }) => base),
    [0, 2]
  )
})

t.test('where there is no room the log says that nothing was written; of other failures nobody knows', async t => {
  const store = storeMemory()
  for (const [cause, isKnown] of [
    [new Full('no room'), true],
    [new Unavailable('away'), false]
  ] as const) {
    const log = streamLog({ ...store, commit: () => Promise.reject(cause) })
    await log.load('b')
    const failure = await log.write('b', { ...nothing, segments: [segment(0, 1)] }).catch((error: unknown) => error)
    t.equal(failure instanceof NotWritten, isKnown)
  }
})
