import { type ChildProcess, spawn } from 'node:child_process'
import { mkdtempSync, rmSync } from 'node:fs'
import { connect, createServer } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as pause } from 'node:timers/promises'
import { type Place, pinned } from './machine.ts'

export { cpuTime, memory } from './usage.ts'

/** Starts processes and folders, and sees that none is left behind, however the bench ends. */

export interface Running {
  readonly name: string
  readonly pid: number
  /** `http://127.0.0.1:port` */
  readonly url: string
  /** Of the management interface, where the program tells one. */
  readonly management: string | null
  /** @throws Error with its last words when it has ended by itself */
  mustRun(): void
  /** Asks it to end, and ends it after 10 s. */
  stop(): Promise<void>
}

const children = new Set<ChildProcess>()
const folders = new Set<string>()

process.on('exit', () => {
  for (const child of children) child.kill('SIGKILL')
  for (const folder of folders) rmSync(folder, { recursive: true, force: true })
})
for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP'] as const) process.once(signal, () => process.exit(130))

/** A folder that goes with the process at the latest. */
export function folder(): { path: string; remove(): void } {
  const path = mkdtempSync(join(tmpdir(), 'svc-bench-'))
  folders.add(path)
  return {
    path,
    remove() {
      rmSync(path, { recursive: true, force: true })
      folders.delete(path)
    }
  }
}

export interface Start {
  readonly name: string
  readonly place: Place
  readonly program: string
  readonly args: readonly string[]
  readonly env?: Readonly<Record<string, string>>
  /** A port on which it will listen; null: it tells its address in a line of JSON with `"msg":"ready"`. */
  readonly port: number | null
}

const startMs = 120_000

/** @throws Error with its last words when it ends instead, or is not ready in 120 s */
export async function start({ name, place, program, args, env, port }: Start): Promise<Running> {
  const [command, all] = pinned(place, program, args)
  const child = spawn(command, all, { stdio: ['ignore', 'pipe', 'pipe'], env: { ...process.env, ...env } })
  const words = lastWords(child)
  const ended = track(child)
  const { gateway: url, management = null } = await Promise.race([
    port === null ? readyLine(child) : listening(port, child),
    ended.then(() => Promise.reject(new Error(`${name} ended at its start: ${words()}`))),
    pause(startMs, undefined, { ref: false }).then(() => Promise.reject(new Error(`${name} is not ready: ${words()}`)))
  ])
  return {
    name,
    pid: child.pid!,
    url,
    management,
    mustRun() {
      if (!children.has(child)) throw new Error(`${name} has ended: ${words()}`)
    },
    async stop() {
      child.kill('SIGTERM')
      const late = setTimeout(() => child.kill('SIGKILL'), 10_000)
      await ended
      clearTimeout(late)
    }
  }
}

/** Runs a program to its end. @returns its standard output. @throws Error when it fails */
export async function run(place: Place, program: string, args: readonly string[]): Promise<string> {
  const [command, all] = pinned(place, program, args)
  const child = spawn(command, all, { stdio: ['ignore', 'pipe', 'pipe'] })
  const ended = track(child)
  const words = lastWords(child)
  let out = ''
  child.stdout.setEncoding('utf8').on('data', (text: string) => {
    out += text
  })
  const code = await ended
  if (code !== 0) throw new Error(`${program} ended with ${code}: ${words()}`)
  return out
}

/** Resolves with the exit status once it has ended and its output was read. */
function track(child: ChildProcess): Promise<number | null> {
  children.add(child)
  return new Promise((resolve, reject) => {
    child.once('error', cause => {
      children.delete(child)
      reject(cause)
    })
    child.once('exit', () => children.delete(child))
    child.once('close', resolve)
  })
}

function lastWords(child: ChildProcess): () => string {
  let words = ''
  for (const stream of [child.stdout!, child.stderr!]) {
    stream.setEncoding('utf8').on('data', (text: string) => {
      words = (words + text).slice(-2_000)
    })
  }
  return () => words.trim() || 'it said nothing'
}

interface Told {
  readonly gateway: string
  readonly management?: string | null
}

function readyLine(child: ChildProcess): Promise<Told> {
  return new Promise(resolve => {
    let rest = ''
    child.stdout!.on('data', function look(text: string) {
      const lines = (rest + text).split('\n')
      rest = lines.pop()!
      for (const line of lines) {
        if (!line.includes('"msg":"ready"')) continue
        child.stdout!.off('data', look)
        const { gateway, management = null } = JSON.parse(line) as Told
        resolve({ gateway: gateway.replace(/\/$/, ''), management })
      }
    })
  })
}

async function listening(port: number, child: ChildProcess): Promise<Told> {
  while (children.has(child)) {
    const answers = await new Promise<boolean>(resolve => {
      const socket = connect(port, '127.0.0.1')
      socket.once('connect', () => resolve(true)).once('error', () => resolve(false))
      socket.once('connect', () => socket.destroy())
    })
    if (answers) break
    await pause(20)
  }
  return { gateway: `http://127.0.0.1:${port}` }
}

/** A port that was free a moment ago, for programs that cannot choose one themselves. */
export async function freePort(): Promise<number> {
  const server = createServer()
  await new Promise<void>(resolve => server.listen(0, '127.0.0.1', resolve))
  const { port } = server.address() as { port: number }
  await new Promise(resolve => server.close(resolve))
  return port
}
