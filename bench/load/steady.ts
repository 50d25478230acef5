import { spawn } from 'node:child_process'
import { fileURLToPath } from 'node:url'
import { pinned } from './machine.ts'

/** One request of a steady load: `status` 0: it was not answered. */
export interface Sample {
  /** Milliseconds since the epoch at which it began. */
  readonly at: number
  readonly ms: number
  readonly status: number
}

export interface SteadyLoad {
  readonly url: string
  readonly headers: Readonly<Record<string, string>>
  /** Requests a second. */
  readonly rate: number
  readonly connections: number
}

const client = fileURLToPath(new URL('clients/steady.ts', import.meta.url))

/** Sends requests at an even pace, each told by itself, until `stop` gives them all. */
export async function steady({ url, headers, rate, connections }: SteadyLoad): Promise<{ stop(): Promise<Sample[]> }> {
  const args = [
    '--disable-warning=ExperimentalWarning',
    client,
    url,
    `${rate}`,
    `${connections}`,
    JSON.stringify(headers)
  ]
  const [command, all] = pinned('others', process.execPath, args)
  const child = spawn(command, all, { stdio: ['pipe', 'pipe', 'inherit'] })
  process.once('exit', () => child.kill('SIGKILL'))
  const lines: string[] = []
  let rest = ''
  let told: (() => void) | null = null
  child.stdout.setEncoding('utf8').on('data', (text: string) => {
    const found = (rest + text).split('\n')
    rest = found.pop()!
    lines.push(...found)
    if (found.length > 0) told?.()
  })
  const ended = new Promise<void>(resolve => child.once('close', () => resolve()))
  await Promise.race([new Promise<void>(resolve => (told = resolve)), ended])
  if (lines.length === 0) throw new Error('the steady load could not start')
  return {
    async stop() {
      child.stdin.write('end\n')
      await ended
      const { at, ms, status } = JSON.parse(lines[1]!) as Record<'at' | 'ms' | 'status', number[]>
      return at!.map((began, i) => ({ at: began, ms: ms![i]!, status: status![i]! }))
    }
  }
}
