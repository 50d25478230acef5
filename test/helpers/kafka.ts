import { type ChildProcess, execFileSync, spawn } from 'node:child_process'
import { randomBytes } from 'node:crypto'
import { once } from 'node:events'
import { cpSync, existsSync, mkdtempSync, realpathSync, renameSync, rmSync, statSync, writeFileSync } from 'node:fs'
import { createServer, type Socket } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as pause } from 'node:timers/promises'
import { type Admin, Kafka, logLevel } from 'kafkajs'
import { certificate, der, extension, sequence } from './certificates.ts'
import type { Ending } from './postgres.ts'

/** An Apache Kafka of its own on the loopback interface: one process, broker and controller together. */
export interface TestKafka {
  /** `127.0.0.1:port`, without TLS and without a login. */
  readonly brokers: readonly string[]
  /** Where `tls` was given. */
  readonly tls: { readonly brokers: readonly string[]; readonly ca: string } | null
  /** Where `sasl` was given: `alice` logs in by PLAIN, `bob` by SCRAM-SHA-256 or SCRAM-SHA-512. Over TLS where both were given. */
  readonly sasl: { readonly brokers: readonly string[]; readonly alice: string; readonly bob: string } | null
  /** A connected one, the same at every call. It ends with the test. */
  admin(): Promise<Admin>
  /** Creates a topic and waits until its partitions have a leader; the answer is its name. */
  topic(name?: string, partitions?: number): Promise<string>
  /** So many partitions in all from now on. */
  addPartitions(topic: string, partitions: number): Promise<void>
  /** Records below the offset are gone, as when they grew too old. */
  truncate(topic: string, partition: number, offset: number): Promise<void>
  /** Offset of the next record of each partition. */
  ends(topic: string): Promise<number[]>
  /** `SIGKILL`: as a crash. Resolves once it has ended. */
  stop(how?: 'SIGTERM' | 'SIGKILL'): Promise<void>
  /** On the same port, with what it held. Some three seconds after a crash. */
  start(): Promise<void>
  restart(how?: 'SIGTERM' | 'SIGKILL'): Promise<void>
  /** Stops the process where it stands, as when its machine hangs; false: it goes on. */
  hang(isHanging: boolean): void
}

export interface KafkaGiven {
  readonly tls?: boolean
  readonly sasl?: boolean
  /** More lines of `server.properties`. */
  readonly properties?: Readonly<Record<string, string | number | boolean>>
  /** `bench`: all of the compiler and a larger heap, instead of a quick start. */
  readonly use?: 'test' | 'bench'
  /** What runs a program instead of itself, for instance on one core. */
  readonly wrap?: (program: string, args: readonly string[]) => [string, string[]]
}

const jars = join(import.meta.dirname, '../servers/kafka/jars')
const PASSWORDS = { alice: 'alice of/the:tests', bob: 'bob of/the:tests' } as const

/** Takes some two seconds. It ends with the test. Tests of one file share one. */
export async function kafka(t: Ending, given: KafkaGiven = {}): Promise<TestKafka> {
  const { use = 'test', wrap = (program, args) => [program, [...args]] } = given
  const java = place()
  const folder = mkdtempSync(join(tmpdir(), 'svc-kafka-'))
  const archive = archiveOf(java)
  let child: ChildProcess | null = null
  let connected: Promise<Admin> | null = null
  t.teardown(async () => {
    await connected?.then(
      admin => admin.disconnect(),
      () => {}
    )
    await end()
    rmSync(folder, { recursive: true, force: true })
  })

  const [port, controller, tlsPort, saslPort] = await freePorts(4)
  const file = join(folder, 'server.properties')
  const served = certificate({ extensions: [loopback] })
  writeFileSync(file, written(properties()))
  writeFileSync(join(folder, 'served.pem'), served.keyPem + served.pem)
  await format()

  /** Servers without users of their own begin with a copy of the same empty store. */
  async function format(): Promise<void> {
    const data = join(folder, 'data')
    const empty = join(jars, 'empty')
    if (!given.sasl && existsSync(empty)) return cpSync(empty, data, { recursive: true })
    const id = randomBytes(16).toString('base64url').replace(/^-/, 'A')
    const users = ['SCRAM-SHA-256', 'SCRAM-SHA-512'].flatMap(mechanism => [
      '--add-scram',
      `${mechanism}=[name=bob,password=${PASSWORDS.bob}]`
    ])
    const args = ['kafka.tools.StorageTool', 'format', '-t', id, '-c', file, ...(given.sasl ? users : [])]
    await done(spawn(java, [...quick, ...shared(archive), ...logs, '-cp', `${jars}/*`, ...args]), 'formatting')
    if (!given.sasl) keep(data, empty)
  }

  function properties(): Record<string, string | number | boolean> {
    const listeners = [
      ['PLAIN', 'PLAINTEXT', port],
      ['CONTROLLER', 'PLAINTEXT', controller],
      ...(given.tls ? [['TLS', 'SSL', tlsPort]] : []),
      ...(given.sasl ? [['SASL', given.tls ? 'SASL_SSL' : 'SASL_PLAINTEXT', saslPort]] : [])
    ]
    return {
      'process.roles': 'broker,controller',
      'node.id': 1,
      'controller.quorum.voters': `1@127.0.0.1:${controller}`,
      listeners: listeners.map(([name, , at]) => `${name}://127.0.0.1:${at}`).join(','),
      'listener.security.protocol.map': listeners.map(([name, protocol]) => `${name}:${protocol}`).join(','),
      'inter.broker.listener.name': 'PLAIN',
      'controller.listener.names': 'CONTROLLER',
      'log.dirs': join(folder, 'data'),
      'auto.create.topics.enable': false,
      'num.partitions': 1,
      'offsets.topic.replication.factor': 1,
      'offsets.topic.num.partitions': 1,
      'transaction.state.log.replication.factor': 1,
      'transaction.state.log.min.isr': 1,
      'transaction.state.log.num.partitions': 1,
      'group.initial.rebalance.delay.ms': 0,
      'group.min.session.timeout.ms': 1000,
      'log.cleaner.dedupe.buffer.size': 8_388_608,
      // A broker that crashed may not come back before its old registration has run out.
      'broker.session.timeout.ms': 1500,
      'broker.heartbeat.interval.ms': 300,
      ...(given.tls ? { 'ssl.keystore.type': 'PEM', 'ssl.keystore.location': join(folder, 'served.pem') } : {}),
      ...(given.sasl ? logins() : {}),
      ...given.properties
    }
  }

  async function start(): Promise<void> {
    const flags =
      use === 'test'
        ? [...quick, '-Xms64m', '-Xmx256m', ...(archive.isMade ? shared(archive) : making(folder))]
        : ['-Xms256m', '-Xmx1g']
    const [command, args] = wrap(java, [...flags, ...logs, '-cp', `${jars}/*`, 'kafka.Kafka', file])
    const server = spawn(command, args, { cwd: folder, stdio: ['ignore', 'ignore', 'pipe'] })
    child = server
    const guard = guarded(server.pid, folder)
    let output = ''
    await new Promise<void>((resolve, reject) => {
      // Tests of the whole file end when nothing is left to do: a server that runs is nothing to wait for.
      server.unref()
      server.stderr!.on('data', chunk => {
        output += chunk
        if (output.includes('Kafka Server started')) {
          ;(server.stderr as Socket).unref()
          resolve()
        }
        // Later lines need no memory.
        if (output.length > 100_000) output = ''
      })
      server.on('exit', () => {
        guard.kill('SIGKILL')
        if (child === server) child = null
        reject(new Error(`Kafka ended: ${output}`))
      })
      server.on('error', reject)
    })
  }

  async function stop(how: 'SIGTERM' | 'SIGKILL' = 'SIGTERM'): Promise<void> {
    const running = child
    if (running === null) return
    const ended = once(running, 'exit')
    running.ref()
    running.kill(how)
    running.kill('SIGCONT')
    await ended
  }

  /** The first server of a machine leaves its loaded classes to the others, which takes an orderly end. */
  async function end(): Promise<void> {
    const isMaking = use === 'test' && !archive.isMade && !existsSync(archive.file)
    await stop(isMaking ? 'SIGTERM' : 'SIGKILL')
    if (!isMaking || !existsSync(fresh(folder))) return
    keep(fresh(folder), archive.file)
  }

  const admin = () => {
    connected ??= (async () => {
      const retry = { initialRetryTime: 100, multiplier: 1.5, maxRetryTime: 1000, retries: 30 }
      const client = new Kafka({ brokers: [`127.0.0.1:${port}`], logLevel: logLevel.NOTHING, retry }).admin()
      await client.connect()
      return client
    })()
    return connected
  }

  /** Waits, for 10 s at most, until each of so many partitions answers: it has a leader then. */
  async function ends(topic: string, partitions: number): Promise<number[]> {
    const until = Date.now() + 10_000
    for (;;) {
      try {
        const offsets = await (await admin()).fetchTopicOffsets(topic)
        if (offsets.length >= partitions)
          return offsets.sort((a, b) => a.partition - b.partition).map(({ high }) => Number(high))
      } catch (cause) {
        if (!(cause as { retriable?: boolean }).retriable || Date.now() > until) throw cause
      }
      if (Date.now() > until) throw new Error(`${topic} has fewer than ${partitions} partitions`)
      await pause(20)
    }
  }

  let topics = 0
  await start()
  return {
    brokers: [`127.0.0.1:${port}`],
    tls: given.tls ? { brokers: [`127.0.0.1:${tlsPort}`], ca: served.pem } : null,
    sasl: given.sasl ? { brokers: [`127.0.0.1:${saslPort}`], ...PASSWORDS } : null,
    admin,
    async topic(name = `topic-${++topics}`, partitions = 1) {
      const topics = [{ topic: name, numPartitions: partitions, replicationFactor: 1 }]
      await (await admin()).createTopics({ topics, waitForLeaders: true })
      await ends(name, partitions)
      return name
    },
    async addPartitions(topic, count) {
      await (await admin()).createPartitions({ topicPartitions: [{ topic, count }] })
      await ends(topic, count)
    },
    async truncate(topic, partition, offset) {
      await (await admin()).deleteTopicRecords({ topic, partitions: [{ partition, offset: String(offset) }] })
    },
    ends: topic => ends(topic, 1),
    stop,
    start,
    async restart(how) {
      await stop(how)
      await start()
    },
    hang(isHanging) {
      child!.kill(isHanging ? 'SIGSTOP' : 'SIGCONT')
    }
  }
}

/** A quick start instead of the best code in the end. */
const quick = ['-XX:TieredStopAtLevel=1', '-XX:+UseSerialGC']
const logs = [
  '-Dorg.slf4j.simpleLogger.defaultLogLevel=warn',
  '-Dorg.slf4j.simpleLogger.log.kafka.server.KafkaRaftServer=info'
]

function logins(): Record<string, string> {
  const of = (module: string) => `org.apache.kafka.common.security.${module} required`
  const lines: Record<string, string> = {
    'sasl.enabled.mechanisms': 'PLAIN,SCRAM-SHA-256,SCRAM-SHA-512',
    'listener.name.sasl.plain.sasl.jaas.config': `${of('plain.PlainLoginModule')} user_alice="${PASSWORDS.alice}";`
  }
  for (const mechanism of ['scram-sha-256', 'scram-sha-512'])
    lines[`listener.name.sasl.${mechanism}.sasl.jaas.config`] = `${of('scram.ScramLoginModule')};`
  return lines
}

/** Names that clients of these listeners may call them by. */
const loopback = extension(
  '2.5.29.17',
  sequence(der(0x82, Buffer.from('localhost')), der(0x87, Buffer.of(127, 0, 0, 1)))
)

/** Copies a file or folder for later servers, whole or not at all. */
function keep(from: string, to: string): void {
  const copy = `${to}.${process.pid}`
  cpSync(from, copy, { recursive: true })
  try {
    renameSync(copy, to)
  } catch {
    // Another test file was faster.
    rmSync(copy, { recursive: true, force: true })
  }
}

const written = (properties: Record<string, string | number | boolean>) =>
  Object.entries(properties)
    .map(([name, value]) => `${name}=${value}\n`)
    .join('')

interface Archive {
  readonly file: string
  readonly isMade: boolean
}

/** The loaded classes of an earlier server, of these jars and this Java: halves the start. */
function archiveOf(java: string): Archive {
  const file = join(jars, `classes-${Math.floor(statSync(java).mtimeMs)}.jsa`)
  return { file, isMade: existsSync(file) }
}

const shared = ({ file, isMade }: Archive) => (isMade ? [`-XX:SharedArchiveFile=${file}`, '-Xlog:cds=off'] : [])
const fresh = (folder: string) => join(folder, 'classes.jsa')
const making = (folder: string) => [`-XX:ArchiveClassesAtExit=${fresh(folder)}`, '-Xlog:cds=off']

/** @returns the program that runs it. @throws Error naming what is missing */
function place(): string {
  let java: string
  try {
    java = realpathSync(execFileSync('sh', ['-c', 'command -v java'], { encoding: 'utf8' }).trim())
  } catch {
    throw new Error('java is missing, which runs Kafka: install the Debian package openjdk-17-jre-headless')
  }
  if (!existsSync(join(jars, '.installed')))
    throw new Error('Kafka is missing in test/servers/kafka: run "node config/install.mjs --for-tests"')
  return java
}

/** A process that ends the server when this one dies before it could: its standard input ends then. */
function guarded(pid: number | undefined, folder: string): ChildProcess {
  const guard = spawn('sh', ['-c', `read line; kill -KILL ${pid}; sleep 1; rm -rf '${folder}'`], {
    stdio: ['pipe', 'ignore', 'ignore'],
    detached: true
  })
  guard.unref()
  ;(guard.stdin as Socket).unref()
  return guard
}

async function done(child: ChildProcess, what: string): Promise<void> {
  let errors = ''
  for (const stream of [child.stdout, child.stderr])
    stream?.on('data', chunk => {
      errors += chunk
    })
  const [status] = await once(child, 'close')
  if (status !== 0) throw new Error(`${what} failed: ${errors}`)
}

/** All held at once, so that no two are the same. */
async function freePorts(count: number): Promise<number[]> {
  const servers = Array.from({ length: count }, () => createServer().listen(0, '127.0.0.1'))
  await Promise.all(servers.map(server => once(server, 'listening')))
  const ports = servers.map(server => (server.address() as { port: number }).port)
  await Promise.all(servers.map(server => once(server.close(), 'close')))
  return ports
}
