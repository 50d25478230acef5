import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import type { Socket } from 'node:net'

/** What tests need to run servers as processes. */

/** A process that ends the server when this one dies before it could: its standard input ends then. */
export function guarded(pid: number | undefined, folder: string, signal: 'KILL' | 'QUIT'): ChildProcess {
  const guard = spawn('sh', ['-c', `read line; kill -${signal} ${pid}; sleep 1; rm -rf '${folder}'`], {
    stdio: ['pipe', 'ignore', 'ignore'],
    detached: true
  })
  guard.unref()
  ;(guard.stdin as Socket).unref()
  return guard
}

/** @throws Error with what it wrote, when it ends with another status than 0 */
export async function done(child: ChildProcess, what: string): Promise<void> {
  let words = ''
  for (const stream of [child.stdout, child.stderr])
    stream?.on('data', chunk => {
      words += chunk
    })
  const [status] = await once(child, 'close')
  if (status !== 0) throw new Error(`${what} failed: ${words}`)
}
