import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { createServer, type Socket } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { Redis } from 'ioredis'
import { certificate, der, extension, isCa, sequence } from './certificates.ts'
import type { Ending } from './postgres.ts'
import { guarded } from './serverProcess.ts'

/** The oldest Redis that installs here, 6.2: a `binary`, without TLS. */
export const oldRedis = join(import.meta.dirname, '../servers/redis/bin/redis-server')

export interface RedisGiven {
  /** Path of the program; the machine's own where none is given. */
  readonly binary?: string
  readonly password?: string
  /** A user beside the default one, who is switched off then; `url` is that user's. `rules`: all of them by default. */
  readonly user?: { readonly name: string; readonly password: string; readonly rules?: readonly string[] }
  /** The port speaks TLS alone, with a certificate for `localhost` and 127.0.0.1 that the CA in `caFile` signed. */
  readonly tls?: boolean
  /** As in redis.conf: `64mb`. */
  readonly maxmemory?: string
  /** More of the command line: `['--appendonly', 'yes']`. */
  readonly args?: readonly string[]
}

/** A Redis server of its own on the loopback interface, which keeps nothing on disk. */
export interface TestRedis {
  readonly port: number
  readonly url: string
  /** '' without TLS. */
  readonly caFile: string
  readonly pid: number
  /** One command, as its user; the reply as ioredis gives it. */
  cli(...args: (string | number)[]): Promise<any>
  /** The calls of a command since the start or `CONFIG RESETSTAT`, by its name in lower case. */
  calls(): Promise<Record<string, number>>
  /** Resolves once it has ended; clients are cut off. */
  stop(): Promise<void>
  /** The same by SIGKILL. */
  kill(): Promise<void>
  /** On the same port, empty (unless `args` persist). Resolves once it answers. */
  start(): Promise<void>
  restart(): Promise<void>
  /** Stops the process where it stands, as when its machine hangs. */
  pause(): void
  resume(): void
}

/** Takes some 50 ms. It ends with the test. */
export async function redisServer(t: Ending, given: RedisGiven = {}): Promise<TestRedis> {
  const folder = mkdtempSync(join(tmpdir(), 'svc-redis-'))
  let child: ChildProcess | null = null
  t.teardown(async () => {
    await end('SIGKILL')
    rmSync(folder, { recursive: true, force: true })
  })
  const caFile = given.tls ? writeCertificates(folder) : ''
  const port = await freePort()

  async function start(): Promise<void> {
    const binary = given.binary ?? 'redis-server'
    const server = spawn(binary, [...serverArgs(given, port, folder), ...(given.args ?? [])], {
      cwd: folder,
      stdio: ['ignore', 'pipe', 'pipe']
    })
    child = server
    let output = ''
    await new Promise<void>((resolve, reject) => {
      server.on('error', (error: NodeJS.ErrnoException) => {
        child = null
        reject(error.code === 'ENOENT' ? new Error(missing(binary)) : error)
      })
      if (server.pid === undefined) return
      const guard = guarded(server.pid, folder, 'KILL')
      // Tests of the whole file end when nothing is left to do: a server that runs is nothing to wait for.
      server.unref()
      for (const stream of [server.stdout, server.stderr] as Socket[]) {
        stream.on('data', chunk => {
          output += chunk
          if (/eady to accept connections/.test(output)) resolve()
          // Later lines need no memory.
          if (output.length > 20_000) output = output.slice(-10_000)
        })
        stream.unref()
      }
      // Until it is ready, there is something to wait for.
      const waiting = setInterval(() => {}, 1000)
      const ended = () => reject(new Error(`${binary} ended: ${output}`))
      server.on('exit', () => {
        guard.kill('SIGKILL')
        if (child === server) child = null
        clearInterval(waiting)
        ended()
      })
      const ready = resolve
      resolve = () => {
        clearInterval(waiting)
        ready()
      }
    })
  }

  async function end(signal: 'SIGTERM' | 'SIGKILL'): Promise<void> {
    const running = child
    if (running === null) return
    const ended = once(running, 'exit')
    running.ref()
    running.kill(signal)
    running.kill('SIGCONT')
    await ended
  }

  const login = given.user ?? (given.password === undefined ? null : { name: '', password: given.password })
  const names = login === null ? '' : `${encodeURIComponent(login.name)}:${encodeURIComponent(login.password)}@`
  const url = `${given.tls ? 'rediss' : 'redis'}://${names}127.0.0.1:${port}`

  async function cli(...args: (string | number)[]): Promise<any> {
    const client = new Redis({
      host: '127.0.0.1',
      port,
      protocol: 2,
      lazyConnect: true,
      retryStrategy: () => null,
      disableClientInfo: true,
      enableReadyCheck: false,
      ...(login && { username: login.name, password: login.password }),
      ...(given.tls && { tls: { rejectUnauthorized: false } })
    })
    client.on('error', () => {})
    try {
      await client.connect()
      const [command, ...rest] = args
      return await client.call(String(command), ...rest.map(String))
    } finally {
      client.disconnect()
    }
  }

  await start()
  return {
    port,
    url,
    caFile,
    get pid() {
      return child!.pid!
    },
    cli,
    async calls() {
      const counts: Record<string, number> = {}
      for (const [, name, count] of String(await cli('INFO', 'commandstats')).matchAll(
        /^cmdstat_([^:]+):calls=(\d+)/gm
      ))
        counts[name!.toLowerCase()] = Number(count)
      return counts
    },
    stop: () => end('SIGTERM'),
    kill: () => end('SIGKILL'),
    start,
    async restart() {
      await end('SIGKILL')
      await start()
    },
    pause: () => void process.kill(child!.pid!, 'SIGSTOP'),
    resume: () => void process.kill(child!.pid!, 'SIGCONT')
  }
}

export interface TestCluster {
  readonly nodes: readonly TestRedis[]
  readonly urls: readonly string[]
  slotOf(key: string): Promise<number>
  /** Index of the node that has the slot. */
  ownerOf(slot: number): number
  /** Moves a slot with its keys while clients go on. Resolves once all nodes know. */
  moveSlot(slot: number, to: number): Promise<void>
}

/** Three primaries that share the slots, no replicas. Takes some three seconds. */
export async function redisCluster(t: Ending, given: RedisGiven = {}): Promise<TestCluster> {
  const args = ['--cluster-enabled', 'yes', '--cluster-node-timeout', '2000', ...(given.args ?? [])]
  const nodes = await Promise.all([0, 1, 2].map(() => redisServer(t, { ...given, args })))
  const bounds = [0, 5461, 10923, 16384]
  const owners: number[] = []
  for (const [i, node] of nodes.entries()) {
    const slots = Array.from({ length: bounds[i + 1]! - bounds[i]! }, (_, j) => bounds[i]! + j)
    for (const slot of slots) owners[slot] = i
    await node.cli('CLUSTER', 'ADDSLOTS', ...slots)
    await node.cli('CLUSTER', 'SET-CONFIG-EPOCH', i + 1)
    if (i > 0) await node.cli('CLUSTER', 'MEET', '127.0.0.1', nodes[0]!.port)
  }
  const isWhole = async (node: TestRedis) => {
    const info = String(await node.cli('CLUSTER', 'INFO'))
    return ['cluster_state:ok', 'cluster_known_nodes:3', 'cluster_slots_ok:16384'].every(line => info.includes(line))
  }
  for (const node of nodes)
    for (let tries = 0; !(await isWhole(node)); tries++) {
      if (tries > 400) throw new Error('the nodes do not find each other')
      await new Promise(resolve => setTimeout(resolve, 50))
    }
  const ids: string[] = []
  for (const node of nodes) ids.push(await node.cli('CLUSTER', 'MYID'))

  return {
    nodes,
    urls: nodes.map(node => node.url),
    slotOf: key => nodes[0]!.cli('CLUSTER', 'KEYSLOT', key),
    ownerOf: slot => owners[slot]!,
    async moveSlot(slot, to) {
      const from = owners[slot]!
      const [source, target] = [nodes[from]!, nodes[to]!]
      await target.cli('CLUSTER', 'SETSLOT', slot, 'IMPORTING', ids[from]!)
      await source.cli('CLUSTER', 'SETSLOT', slot, 'MIGRATING', ids[to]!)
      for (;;) {
        const keys: string[] = await source.cli('CLUSTER', 'GETKEYSINSLOT', slot, 100)
        if (keys.length === 0) break
        await source.cli('MIGRATE', '127.0.0.1', target.port, '', 0, 5000, 'KEYS', ...keys)
      }
      for (const node of [target, source, ...nodes.filter(node => node !== source && node !== target)])
        await node.cli('CLUSTER', 'SETSLOT', slot, 'NODE', ids[to]!)
      owners[slot] = to
    }
  }
}

function serverArgs(given: RedisGiven, port: number, folder: string): string[] {
  const { password, user, tls, maxmemory } = given
  const args = ['--bind', '127.0.0.1', '--save', '', '--dir', folder]
  args.push(...(tls ? ['--port', '0', '--tls-port', `${port}`, '--tls-auth-clients', 'no'] : ['--port', `${port}`]))
  if (tls) for (const name of ['cert', 'key', 'ca-cert']) args.push(`--tls-${name}-file`, join(folder, `${name}.pem`))
  if (password !== undefined) args.push('--requirepass', password)
  if (user !== undefined) {
    args.push('--user', user.name, 'on', `>${user.password}`, ...(user.rules ?? ['~*', '&*', '+@all']))
    args.push('--user', 'default', 'off')
  }
  if (maxmemory !== undefined) args.push('--maxmemory', maxmemory)
  return args
}

function writeCertificates(folder: string): string {
  const ca = certificate({ extensions: [isCa] })
  const names = sequence(der(0x82, Buffer.from('localhost')), der(0x87, Buffer.of(127, 0, 0, 1)))
  const leaf = certificate({ issuer: ca, extensions: [extension('2.5.29.17', names)] })
  writeFileSync(join(folder, 'cert.pem'), leaf.pem)
  writeFileSync(join(folder, 'key.pem'), leaf.keyPem)
  writeFileSync(join(folder, 'ca-cert.pem'), ca.pem)
  return join(folder, 'ca-cert.pem')
}

function missing(binary: string): string {
  return binary === 'redis-server'
    ? 'redis-server is missing: install the Debian package redis-server, or run "node config/install.mjs --for-tests" as root'
    : `${binary} is missing: run "node config/install.mjs --for-tests"`
}

/** A cluster's nodes speak to each other 10,000 ports above. */
async function freePort(): Promise<number> {
  for (let tries = 0; ; tries++) {
    const port = await listening(0)
    if (port < 55_000 && (await listening(port + 10_000).catch(() => 0)) > 0) return port
    if (tries > 1000) throw new Error('no free port')
  }
}

async function listening(wanted: number): Promise<number> {
  const server = createServer()
  server.listen(wanted, '127.0.0.1')
  await once(server, 'listening')
  const { port } = server.address() as { port: number }
  server.close()
  await once(server, 'close')
  return port
}
