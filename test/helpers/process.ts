import { type ChildProcess, spawn } from 'node:child_process'
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import type { Test } from 'tap'
import { compiled } from './compiled.ts'

export const SECRET = 'a-secret-of-the-process-tests'
export const main = join(import.meta.dirname, '../../gateway/main.ts')
/** What the scripts of package.json load before. */
export const runtime = new URL('../../config/runtime.mjs', import.meta.url).href

/** A process of its own, as users start it. */
export interface Launched {
  readonly child: ChildProcess
  /** Base URL of the `ready` line. @throws when the process ends before */
  readonly ready: Promise<string>
  /** Resolves with the exit status, null after a signal. */
  readonly ended: Promise<number | null>
  readonly stdout: () => string
  readonly stderr: () => string
  /** Lines of standard output as JSON. */
  readonly lines: () => any[]
  /** Resolves with the first line that fits; waits for it. */
  line(fits: (line: any) => boolean): Promise<any>
  svc(method: string, path: string, body?: unknown): Promise<{ status: number; body: any }>
}

export interface Launch {
  /** Settings file; null: none. */
  readonly settings?: Record<string, any> | null
  readonly env?: Record<string, string>
  readonly cwd?: string
  readonly args?: readonly string[]
  readonly stdout?: 'pipe' | number
  /** Options of Node itself. */
  readonly node?: readonly string[]
}

export function folder(t: Test): string {
  const path = mkdtempSync(join(tmpdir(), 'svc-process-'))
  t.teardown(() => rmSync(path, { recursive: true, force: true }))
  return path
}

/** Settings of a process on a free port with its data in `cwd`. */
export function settings(gateway: Record<string, unknown> = {}, rest: Record<string, unknown> = {}) {
  return { gateway: { listen_address: '127.0.0.1', listen_port: 0, secret: SECRET, ...gateway }, ...rest }
}

export function launch(t: Test, given: Launch = {}): Launched {
  const cwd = given.cwd ?? folder(t)
  const args = [...(given.args ?? [])]
  if (given.settings !== null) {
    const file = join(cwd, 'settings.json')
    writeFileSync(file, JSON.stringify(given.settings ?? settings()))
    args.push('--config', file)
  }
  const { PATH, HOME } = process.env
  const node = [...(given.node ?? []), '--disable-warning=ExperimentalWarning']
  const child = spawn(process.execPath, [...node, main, ...args], {
    cwd,
    // The default port of the management interface may be another test's.
    env: { PATH, HOME, ...compiled, SVC_MANAGEMENT__LISTEN_PORT: '0', ...given.env },
    stdio: ['ignore', given.stdout ?? 'pipe', 'pipe']
  })
  let out = ''
  let err = ''
  const wanted = new Set<() => void>()
  const tell = () => {
    for (const look of wanted) look()
  }
  child.stdout?.on('data', chunk => {
    out += chunk
    tell()
  })
  child.stderr?.on('data', chunk => {
    err += chunk
  })
  let over = false
  const ended = new Promise<number | null>(resolve =>
    child.on('close', status => {
      over = true
      tell()
      resolve(status)
    })
  )
  t.teardown(async () => {
    if (!over) child.kill('SIGKILL')
    await ended
  })
  const lines = () =>
    out
      .split('\n')
      .slice(0, -1)
      .filter(line => line.startsWith('{'))
      .map(line => JSON.parse(line))
  const line = (fits: (line: any) => boolean) =>
    new Promise<any>((resolve, reject) => {
      const look = () => {
        const found = lines().find(fits)
        if (found === undefined && !over) return
        wanted.delete(look)
        if (found !== undefined) resolve(found)
        else reject(new Error(`the process ended before:\n${out}\n${err}`))
      }
      wanted.add(look)
      look()
    })
  const ready = line(({ msg }) => msg === 'ready').then(({ gateway }) => gateway as string)
  ready.catch(() => {})
  return {
    child,
    ready,
    ended,
    stdout: () => out,
    stderr: () => err,
    lines,
    line,
    async svc(method, path, body) {
      const answer = await fetch((await ready) + path, {
        method,
        headers: { 'X-Svc-Authorization': SECRET, 'Content-Type': 'application/json' },
        ...(body === undefined ? {} : { body: JSON.stringify(body) })
      })
      return { status: answer.status, body: await answer.json() }
    }
  }
}

/** It ends with this status, says one thing on standard error and nothing on standard output. */
export async function refuses(t: Test, process: Launched, status: number, text: RegExp): Promise<void> {
  t.equal(await process.ended, status)
  t.equal(process.stdout(), '')
  t.match(process.stderr(), text)
  if (status === 3) t.equal(process.stderr().trimEnd().split('\n').length, 1, process.stderr())
}

/** Runs it in a shell; the answer is all that it wrote. */
export function run(t: Test, command: string, cwd: string, env: Record<string, string> = {}): Promise<string> {
  return new Promise(resolve => {
    const child = spawn('sh', ['-c', command], { cwd, env: { PATH: process.env.PATH!, ...compiled, ...env } })
    t.teardown(() => void child.kill('SIGKILL'))
    let out = ''
    child.stdout.on('data', chunk => {
      out += chunk
    })
    child.stderr.on('data', chunk => {
      out += chunk
    })
    child.on('close', () => resolve(out))
  })
}

/** A call of the management interface: GET, or POST with a body. */
export async function call(
  process: Launched,
  path: string,
  headers: Record<string, string>,
  body?: object
): Promise<{ status: number; body: any }> {
  const { management } = await process.line(({ msg }) => msg === 'ready')
  const answer = await fetch(management + path, {
    headers,
    ...(body === undefined ? {} : { method: 'POST', body: JSON.stringify(body) })
  })
  return { status: answer.status, body: await answer.json() }
}
