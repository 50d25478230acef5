import { createHash } from 'node:crypto'
import { mkdtempSync, rmSync, statSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { monitorEventLoopDelay } from 'node:perf_hooks'
import { systemClock } from '../../config/world.ts'
import type { Query, Store, Write } from '../../gateway/store/store.ts'
import { storePostgres } from '../../gateway/store/storePostgres.ts'
import { storeSqlite } from '../../gateway/store/storeSqlite.ts'

/*
 * A store with 1,000,000 keys: point reads, list pages, commits, and how long lists hold up the thread that asks.
 * Usage: node bench/micro/store.ts [KEYS]                  SQLite, in a temporary folder
 *        node bench/micro/store.ts [KEYS] postgres://…     PostgreSQL, in an empty database
 */

const args = process.argv.slice(2)
const url = args.find(arg => arg.startsWith('postgres'))
const keys = Number(args.find(arg => arg !== url) ?? 1_000_000)
const perCommit = 5_000
const folder = mkdtempSync(join(tmpdir(), 'bench-store-'))
const path = join(folder, 'svc.db')
const quiet = { debug() {}, info() {}, warn: console.warn, error: console.error }

const idOf = (i: number) => createHash('sha256').update(`key ${i}`).digest('hex')
const orgOf = (i: number) => `org-${(i * 7919) % 10}`
const keyOf = (i: number): Write => ({
  kind: 'key',
  id: idOf(i),
  org: orgOf(i),
  body: {
    alias: `customer ${i}`,
    org_id: orgOf(i),
    rate: 100,
    per: 60,
    quota_max: 10_000,
    quota_renewal_rate: 86_400,
    expires: 0,
    is_inactive: false,
    date_created: '2026-01-01T00:00:00.000Z',
    last_updated: '1767225600',
    apply_policies: ['5f8d0d55b54764421b7156d1'],
    access_rights: { orders: { api_id: 'orders', api_name: 'Orders', versions: ['Default'] } },
    meta_data: { plan: 'gold', customer: `${i}` },
    tags: ['gold', 'eu']
  }
})

const rows: string[][] = []
const row = (what: string, ...values: (string | number)[]) => rows.push([what, ...values.map(String)])
const ms = (value: number) => `${value.toFixed(2)} ms`
const shown = ({ p50, p99, max }: { p50: number; p99: number; max: number }) =>
  [ms(p50), `${ms(p99)} · ${ms(max)}`] as const
const megabytes = (bytes: number) => `${(bytes / 1e6).toFixed(0)} MB`

const open = () =>
  url === undefined
    ? storeSqlite({ path, log: quiet })
    : storePostgres({ url, poolSize: 10, clock: systemClock, log: quiet })

/** p50, p99 and worst of the times that the calls took, one after another. */
async function time(count: number, call: (i: number) => unknown): Promise<{ p50: number; p99: number; max: number }> {
  const times: number[] = []
  for (let i = 0; i < count; i++) {
    const from = performance.now()
    await call(i)
    times.push(performance.now() - from)
  }
  times.sort((a, b) => a - b)
  return { p50: times[count >> 1]!, p99: times[Math.floor(count * 0.99)]!, max: times[count - 1]! }
}

/** Runs it and tells how late, at worst, a millisecond timer was. */
async function delay<T>(run: () => Promise<T>): Promise<{ late: number; took: number; value: T }> {
  const histogram = monitorEventLoopDelay({ resolution: 1 })
  histogram.enable()
  const from = performance.now()
  const value = await run()
  const took = performance.now() - from
  histogram.disable()
  return { late: histogram.max / 1e6 - 1, took, value }
}

async function fill(store: Store): Promise<void> {
  const from = performance.now()
  for (let first = 0; first < keys; first += perCommit) {
    await store.commit(Array.from({ length: Math.min(perCommit, keys - first) }, (_, i) => keyOf(first + i)))
  }
  row(`write ${keys} keys, ${perCommit} a commit`, `${((performance.now() - from) / 1000).toFixed(1)} s`)
  row('bytes of a body', JSON.stringify(keyOf(0).body).length)
}

async function pages(store: Store): Promise<void> {
  for (const [who, org, share] of [
    ['all', undefined, 1],
    ['one organisation', 'org-3', 10]
  ] as const) {
    const last = Math.floor(keys / share / 10)
    for (const [where, page] of [
      ['first', 1],
      ['middle', last >> 1],
      ['last', last]
    ] as const) {
      for (const newestFirst of [true, false]) {
        const query: Query = { page, size: 10, newestFirst, ...(org === undefined ? {} : { org }) }
        const run = () =>
          time(50, async () => {
            const { documents } = await store.list('key', query)
            if (documents.length !== 10) throw new Error(`a page of ${documents.length}`)
          })
        const { late, value } = await delay(run)
        row(`${where} page, ${who}, ${newestFirst ? 'newest' : 'oldest'} first`, ...shown(value), ms(late))
      }
    }
  }
  const { late, value } = await delay(() =>
    time(500, i => store.list('key', { page: 1 + ((i * 7919) % (keys / 10)), size: 10, newestFirst: true }))
  )
  row('any page, all, newest first', ...shown(value), ms(late))
}

async function longLists(store: Store): Promise<void> {
  for (const idsOnly of [true, false]) {
    const { late, took } = await delay(async () => {
      for await (const _ of store.each('key', { idsOnly }));
    })
    row(`everything in slices, ${idsOnly ? 'ids' : 'bodies'}`, ms(took), '', ms(late))
  }
  const lists: [string, Query][] = [
    ['search, no hit', { page: 1, size: 10, contains: 'nothing' }],
    ['search, 4 digits', { page: 1, size: 10, contains: 'beef' }],
    ['search, one digit (most match)', { page: 1, size: 10, contains: '7' }],
    ['everything at once, ids', { page: -1, size: 10, idsOnly: true }],
    ['everything at once, bodies', { page: -1, size: 10 }]
  ]
  for (const [what, query] of lists) {
    let going = true
    const beside = async () => {
      let worst = 0
      for (let page = 1; going; page += 997) {
        const from = performance.now()
        await store.list('key', { page: 1 + (page % (keys / 10)), size: 10, newestFirst: true })
        worst = Math.max(worst, performance.now() - from)
        await new Promise(resolve => setTimeout(resolve, 5))
      }
      return worst
    }
    const worst = beside()
    const { late, took } = await delay(() => store.list('key', query).then(({ total }) => total))
    going = false
    row(what, ms(took), `pages beside it ${ms(await worst)}`, ms(late))
  }
  row('memory after everything', megabytes(process.memoryUsage().rss))
}

async function commits(store: Store): Promise<void> {
  const one = await time(500, i => store.commit([keyOf(keys + i)]))
  row('commit of one new key', ...shown(one))
  const update = await time(500, i => store.commit([keyOf((i * 7919) % keys)]))
  row('commit of one changed key', ...shown(update))
  const from = performance.now()
  let count = 0
  const busy = async (writer: number) => {
    while (performance.now() - from < 3_000) await store.commit([keyOf(2 * keys + writer * 1_000_000 + count++)])
  }
  const { late } = await delay(() => Promise.all(Array.from({ length: 50 }, (_, writer) => busy(writer))))
  row('50 writers at once', `${Math.round(count / ((performance.now() - from) / 1000))} commits/s`, '', ms(late))
}

try {
  const store = await open()
  if ((await store.sequence()) > 0) throw new Error('the database is not empty')
  await fill(store)
  if (url === undefined)
    row('file · log', `${megabytes(statSync(path).size)} · ${megabytes(statSync(`${path}-wal`).size)}`)
  row('memory', megabytes(process.memoryUsage().rss))
  const reads = url === undefined ? 200_000 : 20_000
  const ids = Array.from({ length: reads }, (_, i) => idOf((i * 7919) % keys))
  const read = await time(reads, async i => {
    const document = store.get('key', ids[i]!)
    if ((document instanceof Promise ? await document : document) === null) throw new Error('a key is missing')
  })
  row('point read', ...shown(read))
  await pages(store)
  await commits(store)
  await longLists(store)
  const opening = performance.now()
  await store.close()
  const closed = performance.now()
  const again = await open()
  row('close · open', `${ms(closed - opening)} · ${ms(performance.now() - closed)}`)
  await again.close()
} finally {
  rmSync(folder, { recursive: true, force: true })
}
console.log('| what | p50 or whole | p99 · worst | request thread late by |\n|---|---|---|---|')
for (const cells of rows) console.log(`| ${[...cells, '', '', ''].slice(0, 4).join(' | ')} |`)
