import t, { type Test } from 'tap'
import { type Clock, systemClock } from '../../config/world.ts'
import { Full, type Store, Unavailable } from '../../gateway/store/store.ts'
import { storePostgres } from '../../gateway/store/storePostgres.ts'
import { unavailable } from '../contract/store.ts'
import { handClock } from '../helpers/clock.ts'
import { collectedLog } from '../helpers/gateway.ts'
import { postgres } from '../helpers/postgres.ts'
import { losesNothing } from './killed.ts'

t.setTimeout(120_000)
const server = await postgres(t, { version: 17 })
const key = (id: string, body: unknown = id, org = 'o1') => ({ kind: 'key' as const, id, org, body })
const everything = { page: -1, size: 10 } as const

async function open(t: Test, url: string, log = collectedLog(), clock: Clock = systemClock): Promise<Store> {
  const store = await storePostgres({ url, poolSize: 4, clock, log })
  t.teardown(() => store.close())
  return store
}

/** Repeats a call until the store is there for it. */
async function works<T>(call: () => Promise<T>): Promise<T> {
  for (;;) {
    try {
      return await call()
    } catch (cause) {
      if (!(cause instanceof Unavailable)) throw cause
    }
    await new Promise(resolve => setTimeout(resolve, 20))
  }
}

t.test('documents, lists, sequence and deletions are there after opening again', async t => {
  const url = await server.database()
  const first = await open(t, url)
  await first.commit([key('a'), key('b'), key('c')])
  await first.commit([key('a', 'new'), { kind: 'key', id: 'b', body: null }])
  await first.close()
  const again = await open(t, url)
  t.equal(await again.sequence(), 2)
  t.strictSame(await again.get('key', 'a'), { kind: 'key', id: 'a', org: 'o1', rev: 2, sequence: 2, body: 'new' })
  t.match(await again.since(1), [{ id: 'a' }, { id: 'b', deleted: true }])
  t.equal(await again.commit([key('d')]), 3)
  t.match(await again.list('key', { ...everything, newestFirst: true }), { documents: [{ id: 'd' }, {}, {}] })
})

t.test('what cannot work is refused at once, in one line without the password', async t => {
  for (const database of ['locked', 'other', 'newer']) await server.sql(`CREATE DATABASE ${database}`)
  await server.sql("CREATE DATABASE latin ENCODING LATIN1 TEMPLATE template0 LOCALE 'C'")
  await server.sql("CREATE ROLE nobody LOGIN PASSWORD 'hush'")
  await server.sql('CREATE TABLE svc_documents (x int)', server.urlOf({ database: 'other' }))
  const newer = server.urlOf({ database: 'newer' })
  await (await open(t, newer)).close()
  await server.sql('UPDATE svc_schema SET version = 99', newer)
  const where = `127.0.0.1:${server.port}`
  const cases: [string, string | RegExp][] = [
    [server.urlOf({ password: 'hush' }), `${where}/postgres: password authentication failed for user "svc"`],
    [server.urlOf({ database: 'no_such' }), `${where}/no_such: database "no_such" does not exist`],
    [
      server.urlOf({ database: 'locked', user: 'nobody', password: 'hush' }),
      `${where}/locked: permission denied for schema public`
    ],
    [server.urlOf({ database: 'latin' }), `${where}/latin: the database has the encoding LATIN1, it must be UTF8`],
    [server.urlOf({ database: 'other' }), `${where}/other: has tables of another program: svc_documents`],
    [newer, `${where}/newer: has schema version 99, but this program knows only up to 1`],
    ['mysql://svc:hush@127.0.0.1/x', 'storage.documents.url must begin with postgres://'],
    ['', 'storage.documents.url must begin with postgres://'],
    ['postgres://svc:hush@127.0.0.1:port/x', /^storage.documents.url cannot be read/],
    ['postgres://svc:hu%sh@[::1/x', /^storage.documents.url cannot be read/]
  ]
  for (const [url, message] of cases) {
    const error = await open(t, url, collectedLog(), handClock()).then(
      () => null,
      (error: Error) => error
    )
    t.match(error, { message })
    t.notMatch(`${error?.message} ${error?.stack} ${String(error?.cause)}`, /hush|of:the|pass%20/)
    t.notOk(error?.message.includes('\n'))
  }
  await t.rejects(server.sql('SELECT * FROM svc_meta', server.urlOf({ database: 'other' })), 'it was left alone')
})

t.test('two processes may open an empty database at once, and share it', async t => {
  const url = await server.database()
  const [one, two] = (await Promise.all([open(t, url), open(t, url)])) as [Store, Store]
  const commits = Array.from({ length: 200 }, (_, i) =>
    (i % 2 === 0 ? one : two).commit([key(`${i}`), key('shared', i), key(`mine ${i % 2}`, i)])
  )
  // Whoever follows the sequence misses nothing, whoever commits.
  const seen = new Set<string>()
  let position = 0
  const follow = async () => {
    const newest = await one.sequence()
    for (const { id } of (await one.since(position))!) seen.add(id)
    position = newest
  }
  let isDone = false
  const all = Promise.all(commits).finally(() => {
    isDone = true
  })
  while (!isDone) await follow()
  await follow()
  const sequences = await all
  t.equal(new Set(sequences).size, 200)
  t.equal(Math.max(...sequences), 200)
  t.equal(seen.size, 203)
  t.match(await two.get('key', 'shared'), { rev: 200 })
  t.equal((await two.list('key', { page: 1, size: 1 })).total, 203)
  const creations = await Promise.allSettled([one, two].map(store => store.commit([{ ...key('once'), expect: 0 }])))
  t.strictSame(creations.map(({ status }) => status).sort(), ['fulfilled', 'rejected'])
})

t.test('a server that does not answer at start is tried for 30 seconds', async t => {
  const url = await server.database()
  await server.stop()
  const log = collectedLog()
  const clock = handClock()
  const given = { url, poolSize: 4, clock, log }
  const failed = t.rejects(storePostgres(given), { message: /^127\.0\.0\.1:\d+\/svc_\d+: connect ECONNREFUSED/ })
  await clock.waiting(500)
  t.match(log.lines, [{ level: 'warn', msg: 'the database cannot be reached, trying for 30 s' }])
  clock.jump(30_000)
  await failed
  const late = storePostgres(given)
  await clock.waiting(500)
  await server.start()
  clock.jump(500)
  await (await late).close()
  t.notMatch(JSON.stringify(log.lines), /of:the|pass%20/)
})

t.test('while the server is away every call is unavailable, and works again by itself', async t => {
  const log = collectedLog()
  const store = await open(t, await server.database(), log)
  const { origin } = await store.stand!()
  await store.commit([key('a')])
  t.strictSame(await store.stand!(), { sequence: 1, origin })
  // Connections that idle, and some at work.
  await Promise.all(Array.from({ length: 8 }, () => store.get('key', 'a')))
  const underWay = Array.from({ length: 50 }, (_, i) => store.commit([key(`under way ${i}`)]))
  const settled = Promise.allSettled(underWay)
  await server.stop('immediate')
  for (const result of await settled)
    if (result.status === 'rejected') t.ok(result.reason instanceof Unavailable, String(result.reason))
  await Promise.all(
    Array.from({ length: 20 }, async () => {
      await unavailable(t, () => store.get('key', 'a'))
      await unavailable(t, () => store.commit([key('b')]))
      await unavailable(t, () => store.list('key', { page: 1, size: 2 }))
      await unavailable(t, () => store.list('key', everything))
      await unavailable(t, () => store.since(0))
      await unavailable(t, () => store.sequence())
    })
  )
  await server.start()
  t.match(await works(async () => store.get('key', 'a')), { rev: 1 })
  t.not((await store.stand!()).origin, origin, 'it may have been put back meanwhile')
  const { documents } = await store.list('key', everything)
  for (const [i, result] of (await settled).entries())
    if (result.status === 'fulfilled' && !documents.some(({ id }) => id === `under way ${i}`)) t.fail('was lost')
  await store.commit([key('b')])
  t.match(
    log.lines.filter(({ level }) => level !== 'debug').map(({ level, msg }) => `${level} ${msg}`),
    ['error the database is away', 'info the database is back']
  )
  t.notMatch(JSON.stringify(log.lines), /of:the|pass%20/)
})

t.test('a server that takes no writes still serves reads, and a disk that was full passes', async t => {
  const url = await server.database()
  const name = new URL(url).pathname.slice(1)
  const store = await open(t, url)
  await store.commit([key('a')])
  const readOnly = async (value: string) => {
    await server.sql(`ALTER DATABASE ${name} SET default_transaction_read_only = ${value}`)
    await server.sql(`SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = '${name}'`)
    await works(async () => store.get('key', 'a'))
  }
  await readOnly('on')
  await unavailable(t, () => store.commit([key('b')]))
  await unavailable(t, () => store.commit([]))
  t.match(await store.get('key', 'a'), { rev: 1 })
  await readOnly('off')
  await store.commit([key('b')])

  const full = `CREATE FUNCTION full_disk() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
    IF NEW.body LIKE '%too much%' THEN RAISE EXCEPTION 'no space left' USING ERRCODE = '53100'; END IF;
    RETURN NEW; END $$; CREATE TRIGGER full_disk BEFORE INSERT ON svc_documents FOR EACH ROW EXECUTE FUNCTION full_disk()`
  await server.sql(full, url)
  const [fits, tooMuch, alsoFits] = await Promise.allSettled([
    store.commit([key('fits')]),
    store.commit([key('with it'), key('c', 'too much')]),
    store.commit([key('also fits')])
  ])
  t.match([fits, alsoFits], [{ status: 'fulfilled' }, { status: 'fulfilled' }])
  t.ok(tooMuch.status === 'rejected' && tooMuch.reason instanceof Full)
  t.equal(await store.get('key', 'with it'), null)
  await server.sql('DROP TRIGGER full_disk ON svc_documents', url)
  await store.commit([key('c', 'too much')])
  t.equal((await store.list('key', everything)).total, 5)
})

t.test('pages are right across gaps of millions in the order of creation', async t => {
  const url = await server.database()
  const store = await open(t, url)
  const ids = Array.from({ length: 40 }, (_, i) => `${i}`)
  for (const id of ids) {
    await store.commit([key(id, 0, Number(id) % 3 === 0 ? 'third' : 'rest')])
    // As if as many had been created and deleted since.
    await server.sql('UPDATE svc_meta SET ordinal = ordinal + 3 * 400009', url)
  }
  await store.commit(ids.filter((_, i) => i % 5 === 0).map(id => ({ kind: 'key', id, body: null })))
  const left = ids.filter((_, i) => i % 5 !== 0)
  for (const [org, wanted] of [
    [undefined, left],
    ['third', left.filter(id => Number(id) % 3 === 0)]
  ] as const) {
    for (const newestFirst of [false, true]) {
      const ordered = newestFirst ? wanted.toReversed() : wanted
      for (let page = 1; page <= ordered.length / 3 + 2; page++) {
        const query = { page, size: 3, newestFirst, ...(org === undefined ? {} : { org }) }
        const { documents, total } = await store.list('key', query)
        t.equal(total, ordered.length)
        t.strictSame(
          documents.map(({ id }) => id),
          ordered.slice(page * 3 - 3, page * 3)
        )
      }
    }
  }
  t.strictSame(await server.sql('SELECT count(*)::int AS n FROM svc_blocks WHERE count < 1', url), [{ n: 0 }])
})

t.test('everything that was acknowledged is there after kill -9, and every commit is whole', async t => {
  const url = await server.database()
  await losesNothing(t, url, () => storePostgres({ url, poolSize: 4, clock: systemClock, log: collectedLog() }))
})

t.test('a server that hangs fails calls within seconds, later ones at once', async t => {
  const store = await open(t, await server.database())
  await store.commit([key('a')])
  await server.hang(true)
  try {
    await Promise.all(Array.from({ length: 300 }, () => unavailable(t, () => store.get('key', 'a'))))
  } finally {
    await server.hang(false)
  }
  t.match(await works(async () => store.get('key', 'a')), { rev: 1 })
})
