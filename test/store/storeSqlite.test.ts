import { channel } from 'node:diagnostics_channel'
import { once } from 'node:events'
import { renameSync, statSync, symlinkSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { DatabaseSync } from 'node:sqlite'
import type { Worker } from 'node:worker_threads'
import t, { type Test } from 'tap'
import { Full, type Store, Unavailable } from '../../gateway/store/store.ts'
import { storeSqlite } from '../../gateway/store/storeSqlite.ts'
import { storeContract, unavailable } from '../contract/store.ts'
import { losesNothing, writer } from './killed.ts'

t.setTimeout(120_000)
const log = { debug() {}, info() {}, warn() {}, error() {} }
const key = (id: string, body: unknown = id, org = 'o1') => ({ kind: 'key' as const, id, org, body })
const everything = { page: -1, size: 10 } as const

async function open(t: Test, path: string, maxBytes?: number): Promise<Store> {
  const store = await storeSqlite({ path, log, ...(maxBytes === undefined ? {} : { maxBytes }) })
  t.teardown(() => store.close())
  return store
}

const folder = t.testdir()
let stores = 0
storeContract(t, () => storeSqlite({ path: join(folder, `${++stores}.db`), log }))

t.test('documents, lists, sequence and deletions are there after opening again', async t => {
  const path = join(t.testdir(), 'svc.db')
  const first = await storeSqlite({ path, log })
  await first.commit([key('a'), key('b'), key('c')])
  await first.commit([key('a', 'new'), { kind: 'key', id: 'b', body: null }])
  await first.close()
  const again = await open(t, path)
  t.equal(await again.sequence(), 2)
  t.strictSame(await again.get('key', 'a'), { kind: 'key', id: 'a', org: 'o1', rev: 2, sequence: 2, body: 'new' })
  t.match(await again.list('key', everything), { total: 2, documents: [{ id: 'a' }, { id: 'c' }] })
  t.match(await again.since(1), [{ id: 'a' }, { id: 'b', deleted: true }])
  t.equal(await again.commit([key('d')]), 3)
  t.match(await again.list('key', { ...everything, newestFirst: true }), { documents: [{ id: 'd' }, {}, {}] })
})

t.test('the file is for its owner alone, and so is a folder that had to be created', async t => {
  const path = join(t.testdir(), 'data', 'deep', 'svc.db')
  const store = await open(t, path)
  await store.commit([key('a')])
  const mode = (name: string) => statSync(name).mode & 0o777
  for (const suffix of ['', '-wal', '-shm', '.lock']) t.equal(mode(path + suffix), 0o600, suffix)
  t.equal(mode(join(path, '..')), 0o700)
  t.equal(mode(join(path, '..', '..')), 0o700)
})

t.test('a file in use is refused by name, in this process and in another', async t => {
  const path = join(t.testdir(), 'svc.db')
  const store = await open(t, path)
  const inUse = { message: `${path} is in use by another process` }
  await t.rejects(storeSqlite({ path, log }), inUse)
  const link = join(path, '..', 'link.db')
  symlinkSync(path, link)
  await t.rejects(storeSqlite({ path: link, log }), inUse, 'under another name too')
  const { child, closed } = writer(path, 'idle')
  let errors = ''
  child.stderr.on('data', chunk => {
    errors += chunk
  })
  await closed
  t.match(errors, inUse.message)
  t.equal(child.exitCode, 1)
  await store.commit([key('a')])
  await store.close()
  await (await open(t, path)).commit([key('b')])
})

t.test('a file that another process holds is refused until that process is gone, killed or not', async t => {
  const path = join(t.testdir(), 'svc.db')
  const { child, lines, closed } = writer(path, 'idle')
  await once(lines, 'line')
  await t.rejects(storeSqlite({ path, log }), { message: `${path} is in use by another process` })
  child.kill('SIGKILL')
  await closed
  await (await open(t, path)).commit([key('a')])
})

t.test('a file from a newer version, of another program, or none at all is refused by name and left alone', async t => {
  const at = (name: string) => join(folder, name)
  await (await storeSqlite({ path: at('newer.db'), log })).close()
  const newer = new DatabaseSync(at('newer.db'))
  newer.exec('PRAGMA user_version = 99')
  newer.close()
  const other = new DatabaseSync(at('other.db'))
  other.exec('CREATE TABLE mine (x)')
  other.close()
  writeFileSync(at('text.db'), 'hello '.repeat(1000))
  const cases = {
    'newer.db': /newer\.db: .*version 99.* up to 1$/,
    'other.db': /other\.db: .*another program/,
    'text.db': /text\.db: .*not a database/
  }
  for (const [name, message] of Object.entries(cases)) {
    await t.rejects(storeSqlite({ path: at(name), log }), { message })
    await t.rejects(storeSqlite({ path: at(name), log }), { message }, 'the lock was given back')
  }
})

t.test('a full disk acknowledges nothing, harms only who does not fit, and passes', async t => {
  const path = join(t.testdir(), 'svc.db')
  const store = await open(t, path, 2 * 1024 * 1024)
  await store.commit([key('small')])
  const mega = (id: string) => key(id, 'x'.repeat(1024 * 1024))
  await store.commit([mega('first')])
  const [tooMuch, fits, tooMuchAgain] = await Promise.allSettled([
    store.commit([key('with it'), mega('second')]),
    store.commit([key('fits')]),
    store.commit([mega('third')])
  ])
  for (const result of [tooMuch, tooMuchAgain]) {
    t.equal(result.status, 'rejected')
    t.ok(result.status === 'rejected' && result.reason instanceof Full)
  }
  t.strictSame(fits, { status: 'fulfilled', value: 3 })
  t.equal(store.get('key', 'with it'), null)
  t.equal(store.get('key', 'second'), null)
  t.equal((await store.list('key', everything)).total, 3)
  await store.commit([{ kind: 'key', id: 'first', body: null }])
  await store.commit([key('with it'), mega('second')])
  t.strictSame(
    (await store.list('key', { ...everything, idsOnly: true })).documents.map(({ id }) => id),
    ['small', 'fits', 'with it', 'second']
  )
})

t.test('a file that was moved away takes no writes, until it is back', async t => {
  const path = join(t.testdir(), 'svc.db')
  const store = await open(t, path)
  await store.commit([key('a')])
  renameSync(path, `${path}.away`)
  await unavailable(t, () => store.commit([key('b')]))
  renameSync(`${path}.away`, path)
  await store.commit([key('c')])
  t.equal(store.get('key', 'b'), null)
  t.match(store.get('key', 'c'), { rev: 1 })
})

t.test('when the thread dies, what was under way is unavailable, and the next call starts another', async t => {
  let thread: Worker | undefined
  const watch = (message: unknown) => {
    thread = (message as { worker: Worker }).worker
  }
  channel('worker_threads').subscribe(watch)
  t.teardown(() => channel('worker_threads').unsubscribe(watch))
  const store = await open(t, join(t.testdir(), 'svc.db'))
  await store.commit(Array.from({ length: 3_000 }, (_, i) => key(`${i}`)))
  const dying = thread!
  const underWay = [store.list('key', everything), store.since(0), store.commit([key('lost')])]
  const ended = dying.terminate()
  for (const result of await Promise.allSettled(underWay)) {
    if (result.status === 'rejected') t.ok(result.reason instanceof Unavailable)
  }
  await ended
  await store.commit([key('a')])
  t.not(thread, dying)
  t.match(store.get('key', 'a'), { rev: 1 })
  t.ok((await store.list('key', { page: 1, size: 1 })).total > 3_000)
})

t.test('pages are right across gaps of millions in the order of creation', async t => {
  const path = join(t.testdir(), 'svc.db')
  const store = await open(t, path)
  const outside = new DatabaseSync(path, { timeout: 1_000 })
  t.teardown(() => outside.close())
  const ids = Array.from({ length: 40 }, (_, i) => `${i}`)
  for (const id of ids) {
    await store.commit([key(id, 0, Number(id) % 3 === 0 ? 'third' : 'rest')])
    // As if as many had been created and deleted since.
    outside.exec('UPDATE meta SET ordinal = ordinal + 3 * 400009')
  }
  await store.commit(ids.filter((_, i) => i % 5 === 0).map(id => ({ kind: 'key', id, body: null })))
  const left = ids.filter((_, i) => i % 5 !== 0)
  for (const [org, wanted] of [
    [undefined, left],
    ['third', left.filter((_, i) => Number(left[i]) % 3 === 0)]
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
  t.strictSame(outside.prepare('SELECT count(*) AS n FROM blocks WHERE count < 1').get()!.n, 0)
})

t.test('everything that was acknowledged is there after kill -9, and every commit is whole', async t => {
  const path = join(t.testdir(), 'svc.db')
  await losesNothing(t, path, () => storeSqlite({ path, log }))
})
