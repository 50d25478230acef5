import { storeSqlite } from '../../gateway/store/storeSqlite.ts'

// Run as a process of its own by storeSqlite.test.ts, which kills it: writes without end, and prints what was acknowledged.
const [path, round] = process.argv.slice(2) as [string, string]
const silent = { debug() {}, info() {}, warn() {}, error() {} }
const store = await storeSqlite({ path, log: silent })
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
