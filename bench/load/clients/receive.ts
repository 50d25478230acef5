import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { folder, run, start } from '../processes.ts'
import type { Job, Received } from './job.ts'

/** Starts the receiver on the generator's core. */

const program = fileURLToPath(new URL('receiver.ts', import.meta.url))
const flags = ['--disable-warning=ExperimentalWarning', '--disable-warning=TimeoutNegativeWarning']

type Asked = Omit<Job, 'report'>

/** @throws Error when a client cannot connect, or gets nothing */
export async function receive(asked: Asked): Promise<Received> {
  const { args, read, remove } = prepared(asked)
  try {
    await run('others', process.execPath, args)
    return read()
  } finally {
    remove()
  }
}

/** Resolves when the stream flows; `end` ends it and tells what was received since. */
export async function receiving(asked: Asked): Promise<{ end(): Promise<Received> }> {
  const { args, read, remove } = prepared(asked)
  const running = await start({ name: 'receiver', place: 'others', program: process.execPath, args, port: null })
  return {
    async end() {
      running.mustRun()
      // Longer than its own waits: see `stop`.
      await running.stop()
      const found = read()
      remove()
      return found
    }
  }
}

function prepared(asked: Asked) {
  const temp = folder()
  const report = join(temp.path, 'received.json')
  const job: Job = { ...asked, report }
  return {
    args: [...flags, program, JSON.stringify(job)],
    read() {
      // NaN is null in JSON.
      const text = readFileSync(report, 'utf8').replaceAll('null', '"NaN"')
      const found = JSON.parse(text) as Record<keyof Received, number | string>
      return Object.fromEntries(
        Object.entries(found).map(([name, value]) => [name, Number(value)])
      ) as unknown as Received
    },
    remove: temp.remove
  }
}
