import { systemClock } from '../../config/world.ts'
import { storePostgres } from '../../gateway/store/storePostgres.ts'
import { storeSqlite } from '../../gateway/store/storeSqlite.ts'

// Run as a process of its own by killed.ts, which kills it: writes without end, and prints what was acknowledged.
const [place, round] = process.argv.slice(2) as [string, string]
const log = { debug() {}, info() {}, warn() {}, error() {} }
const store = place.startsWith('postgres://')
  ? await storePostgres({ url: place, poolSize: 4, clock: systemClock, log })
  : await storeSqlite({ path: place, log })
process.stdout.write('open\n')

async function write(writer: number): Promise<void> {
  for (let i = 0; ; i++) {
    const id = `${round}-${writer}-${i}`
    // Two documents a commit, one of them shared: it must be all or nothing, and no acknowledged update may be lost.
    await store.commit([
      { kind: 'key', id, org: `o${writer % 3}`, body: { id, text: 'x'.repeat(400) } },
      { kind: 'policy', id: `${writer}`, org: '', body: id }
    ])
    process.stdout.write(`${id}\n`)
    if (i % 5 === 4) await store.commit([{ kind: 'key', id, body: null }])
  }
}
if (round !== 'idle') for (let writer = 0; writer < 16; writer++) void write(writer)
