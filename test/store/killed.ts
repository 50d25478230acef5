import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { createInterface } from 'node:readline'
import { fileURLToPath } from 'node:url'
import type { Test } from 'tap'
import type { Store } from '../../gateway/store/store.ts'

/** A process that writes to the store at a path or address; `idle`: it only opens it. */
export function writer(place: string, round: string) {
  const script = fileURLToPath(new URL('./writer.ts', import.meta.url))
  const child = spawn(process.execPath, [script, place, round], { stdio: ['ignore', 'pipe', 'pipe'] })
  return { child, lines: createInterface(child.stdout), closed: once(child, 'close') }
}

/** Kills writers of a store, again and again, and looks for what they were told is safe. */
export async function losesNothing(t: Test, place: string, open: () => Promise<Store>): Promise<void> {
  const acknowledged = new Set<string>()
  for (let round = 0; round < 5; round++) {
    const { child, lines, closed } = writer(place, `${round}`)
    const enough = acknowledged.size + 300 + round * 100
    lines.on('line', line => {
      if (line !== 'open') acknowledged.add(line)
      if (acknowledged.size === enough) child.kill('SIGKILL')
    })
    await closed
    t.equal(child.signalCode, 'SIGKILL')

    const store = await open()
    const { documents, total } = await store.list('key', { page: -1, size: 10, idsOnly: true })
    t.equal(documents.length, total)
    const kept = new Set(documents.map(({ id }) => id))
    const last = new Map<string, number>()
    for (const id of acknowledged) {
      const [of, writer, i] = id.split('-').map(Number) as [number, number, number]
      // Every fifth is deleted afterwards, acknowledged or not.
      if (i % 5 !== 4 && !kept.has(id)) t.fail(`${id} was lost`)
      if (of === round) last.set(`${writer}`, Math.max(last.get(`${writer}`) ?? 0, i))
    }
    for (const [writer, i] of last) {
      const newest = (await store.get<string>('policy', writer))!.body
      const [of, , at] = newest.split('-').map(Number) as [number, number, number]
      if (of !== round || at < i) t.fail(`an update of ${writer} was lost`)
      if (at % 5 !== 4 && !kept.has(newest)) t.fail(`a commit of ${writer} is half there`)
    }
    await store.close()
  }
  t.ok(acknowledged.size >= 2_500)
}
