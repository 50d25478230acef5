import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import {
  chmodSync,
  cpSync,
  existsSync,
  mkdtempSync,
  readFileSync,
  renameSync,
  rmSync,
  statSync,
  writeFileSync
} from 'node:fs'
import { createServer, type Socket } from 'node:net'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { Client } from 'pg'
import { done, guarded } from './serverProcess.ts'

export type PostgresVersion = 13 | 17

/** A PostgreSQL server of its own on the loopback interface; user `svc`, who may do everything. */
export interface TestPostgres {
  readonly port: number
  /** Of the first database. */
  readonly url: string
  /** Creates one more database; the answer is its address. */
  database(): Promise<string>
  /** The same server, but another database, user or password. */
  urlOf(given: { database?: string; user?: string; password?: string }): string
  /** Runs SQL as the administrator and answers the rows. */
  sql(text: string, url?: string): Promise<any[]>
  /** `immediate`: as a crash, clients are cut off. Resolves once it has ended. */
  stop(how?: 'fast' | 'immediate'): Promise<void>
  start(): Promise<void>
  restart(): Promise<void>
  /** Stops the processes of the server where they stand, as when its machine hangs; false: they go on. */
  hang(isHanging: boolean): Promise<void>
}

export interface PostgresGiven {
  readonly version: PostgresVersion
  /** A commit waits for the disk. The machine does not fail in tests, and killed processes lose nothing without it. */
  readonly sync?: boolean
}

/** A test, or whatever else tells when it is over. */
export interface Ending {
  teardown(end: () => unknown): unknown
}

const PASSWORD = 'pass word/of:the@tests'
const servers = join(import.meta.dirname, '../servers/node_modules')

/** Takes some two seconds. It ends with the test. */
export async function postgres(t: Ending, { version, sync = false }: PostgresGiven): Promise<TestPostgres> {
  const { bin, user } = place(version)
  const folder = mkdtempSync(join(tmpdir(), 'svc-postgres-'))
  let child: ChildProcess | null = null
  t.teardown(async () => {
    await stop('immediate')
    rmSync(folder, { recursive: true, force: true })
  })
  const { uid, gid } = user
  const data = join(folder, 'data')
  writeFileSync(join(folder, 'password'), PASSWORD)
  if (uid !== undefined) await done(spawn('chown', ['-R', `${uid}:${gid}`, folder]), 'chown')
  const options = { cwd: folder, env: { LC_ALL: 'C', PATH: process.env.PATH }, uid, gid } as const
  const auth = ['--auth=scram-sha-256', `--pwfile=${join(folder, 'password')}`]
  const flags = ['--no-sync', '--encoding=UTF8', '--locale=C', '--username=svc', ...auth]
  await done(spawn(join(bin, 'initdb'), ['-D', data, ...flags], options), 'initdb')
  const port = await freePort()

  async function start(): Promise<void> {
    const settings = {
      port,
      listen_addresses: '127.0.0.1',
      unix_socket_directories: '',
      fsync: sync ? 'on' : 'off',
      max_connections: 60
    }
    const args = Object.entries(settings).flatMap(([name, value]) => ['-c', `${name}=${value}`])
    const server = spawn(join(bin, 'postgres'), ['-D', data, ...args], {
      ...options,
      stdio: ['ignore', 'ignore', 'pipe']
    })
    child = server
    const guard = guarded(server.pid, folder, 'QUIT')
    let output = ''
    await new Promise<void>((resolve, reject) => {
      // Tests of the whole file end when nothing is left to do: a server that runs is nothing to wait for.
      server.unref()
      server.stderr.on('data', chunk => {
        output += chunk
        if (output.includes('ready to accept connections')) {
          ;(server.stderr as Socket).unref()
          resolve()
        }
        // Later lines need no memory.
        if (output.length > 100_000) output = ''
      })
      server.on('exit', () => {
        guard.kill('SIGKILL')
        if (child === server) child = null
        reject(new Error(`PostgreSQL ${version} ended: ${output}`))
      })
      server.on('error', reject)
    })
  }

  async function stop(how: 'fast' | 'immediate' = 'fast'): Promise<void> {
    const running = child
    if (running === null) return
    const ended = once(running, 'exit')
    running.ref()
    running.kill(how === 'fast' ? 'SIGINT' : 'SIGQUIT')
    running.kill('SIGCONT')
    await ended
  }

  const urlOf: TestPostgres['urlOf'] = ({ database = 'postgres', user = 'svc', password = PASSWORD }) =>
    `postgres://${user}:${encodeURIComponent(password)}@127.0.0.1:${port}/${database}`
  const url = urlOf({})

  async function sql(text: string, at = url): Promise<any[]> {
    const client = new Client({ connectionString: at })
    client.on('error', () => {})
    await client.connect()
    try {
      return (await client.query(text)).rows
    } finally {
      await client.end()
    }
  }

  let databases = 0
  await start()
  return {
    port,
    url,
    urlOf,
    sql,
    async database() {
      const database = `svc_${++databases}`
      await sql(`CREATE DATABASE ${database}`)
      return urlOf({ database })
    },
    stop,
    start,
    async restart() {
      await stop()
      await start()
    },
    async hang(isHanging) {
      const pid = child!.pid!
      const signal = isHanging ? 'SIGSTOP' : 'SIGCONT'
      for (const one of [pid, ...children(pid)]) process.kill(one, signal)
    }
  }
}

/** Processes whose parent it is. Linux only, as the servers. */
function children(pid: number): number[] {
  const text = readFileSync(`/proc/${pid}/task/${pid}/children`, 'utf8').trim()
  return text === '' ? [] : text.split(' ').map(Number)
}

/** Where the server's programs lie, and who runs them: PostgreSQL refuses to run as root. */
function place(version: PostgresVersion) {
  const name = `postgres-${version}-${process.platform}-${process.arch}`
  let native = join(servers, name, 'native')
  if (!existsSync(join(native, 'bin', 'postgres')))
    throw new Error(`the package ${name} is missing in test/servers: run "node config/install.mjs --for-tests"`)
  if (process.getuid!() !== 0) return { bin: join(native, 'bin'), user: {} }
  const nobody = readFileSync('/etc/passwd', 'utf8')
    .split('\n')
    .map(line => line.split(':'))
    .find(([name]) => name === 'nobody')!
  if (!isOpen(native)) native = copied(native, name)
  return { bin: join(native, 'bin'), user: { uid: Number(nobody[2]), gid: Number(nobody[3]) } }
}

/** Everybody may enter it. */
function isOpen(folder: string): boolean {
  return (statSync(folder).mode & 0o001) !== 0 && (folder === dirname(folder) || isOpen(dirname(folder)))
}

/** A copy outside of root's own folders, made once. */
function copied(native: string, name: string): string {
  const { version } = JSON.parse(readFileSync(join(native, '..', 'package.json'), 'utf8'))
  const copy = join(tmpdir(), `svc-${name}-${version}`)
  if (existsSync(copy) && statSync(copy).uid === 0) return copy
  const fresh = mkdtempSync(`${copy}-`)
  cpSync(native, fresh, { recursive: true, verbatimSymlinks: true })
  chmodSync(fresh, 0o755)
  try {
    renameSync(fresh, copy)
  } catch {
    // Another test file was faster.
    rmSync(fresh, { recursive: true, force: true })
  }
  return copy
}

async function freePort(): Promise<number> {
  const server = createServer()
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  const { port } = server.address() as { port: number }
  server.close()
  await once(server, 'close')
  return port
}
