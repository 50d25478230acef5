import { execFileSync, spawn } from 'node:child_process'
import { randomBytes, randomInt } from 'node:crypto'
import { once } from 'node:events'
import { cpSync, existsSync, realpathSync, renameSync, rmSync, statSync } from 'node:fs'
import { createServer, type Server } from 'node:net'
import { join } from 'node:path'
import { done } from './serverProcess.ts'

/** What a Kafka of tests is made of: its program and classes, its ports, its settings, its empty store. */

export const PASSWORDS = { alice: 'alice of/the:tests', bob: 'bob of/the:tests' } as const

const jars = join(import.meta.dirname, '../servers/kafka/jars')
/** An empty store, made by the first server. */
const empty = join(jars, 'empty')
/** A quick start instead of the best code in the end. */
const quick = ['-XX:TieredStopAtLevel=1', '-XX:+UseSerialGC']
const rest = [
  '-Dorg.slf4j.simpleLogger.defaultLogLevel=warn',
  '-Dorg.slf4j.simpleLogger.log.kafka.server.KafkaRaftServer=info',
  '-cp',
  `${jars}/*`
]

export interface Ports {
  readonly plain: number
  readonly controller: number
  readonly tls: number
  readonly sasl: number
}

export type Properties = Readonly<Record<string, string | number | boolean>>

/** Text of `server.properties`: one process, broker and controller together. */
export function serverProperties(folder: string, ports: Ports, has: { tls: boolean; sasl: boolean }, more: Properties) {
  const listeners = [
    ['PLAIN', 'PLAINTEXT', ports.plain],
    ['CONTROLLER', 'PLAINTEXT', ports.controller],
    ...(has.tls ? [['TLS', 'SSL', ports.tls]] : []),
    ...(has.sasl ? [['SASL', has.tls ? 'SASL_SSL' : 'SASL_PLAINTEXT', ports.sasl]] : [])
  ]
  const properties: Properties = {
    'process.roles': 'broker,controller',
    'node.id': 1,
    'controller.quorum.voters': `1@127.0.0.1:${ports.controller}`,
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
    ...(has.tls ? { 'ssl.keystore.type': 'PEM', 'ssl.keystore.location': join(folder, 'served.pem') } : {}),
    ...(has.sasl ? logins() : {}),
    ...more
  }
  return Object.entries(properties)
    .map(([name, value]) => `${name}=${value}\n`)
    .join('')
}

function logins(): Properties {
  const of = (module: string) => `org.apache.kafka.common.security.${module} required`
  return {
    'sasl.enabled.mechanisms': 'PLAIN,SCRAM-SHA-256,SCRAM-SHA-512',
    'listener.name.sasl.plain.sasl.jaas.config': `${of('plain.PlainLoginModule')} user_alice="${PASSWORDS.alice}";`,
    'listener.name.sasl.scram-sha-256.sasl.jaas.config': `${of('scram.ScramLoginModule')};`,
    'listener.name.sasl.scram-sha-512.sasl.jaas.config': `${of('scram.ScramLoginModule')};`
  }
}

/** How Java runs Kafka. */
export interface Java {
  readonly program: string
  /** To start the server. */
  readonly args: readonly string[]
  /** Makes the store in `data`, with the user `bob` where logins are asked for. */
  format(file: string, data: string, hasUsers: boolean): Promise<void>
  /** Where the server leaves its loaded classes when it is ended in order; null: it does not. */
  readonly classes: string | null
  /** Keeps them for later servers. */
  keepClasses(): void
}

/** @throws Error naming what is missing */
export function java(folder: string, use: 'test' | 'bench'): Java {
  const program = installed()
  // Of these jars and this Java; it halves the time of a start.
  const archive = join(jars, `classes-${Math.floor(statSync(program).mtimeMs)}.jsa`)
  const isArchived = existsSync(archive)
  const made = use === 'test' && !isArchived ? join(folder, 'classes.jsa') : null
  const shared = isArchived ? [`-XX:SharedArchiveFile=${archive}`, '-Xlog:cds=off'] : []
  const making = made === null ? [] : [`-XX:ArchiveClassesAtExit=${made}`, '-Xlog:cds=off']
  const speed = use === 'test' ? [...quick, '-Xms64m', '-Xmx256m', ...shared, ...making] : ['-Xms256m', '-Xmx1g']
  return {
    program,
    args: [...speed, ...rest, 'kafka.Kafka'],
    async format(file, data, hasUsers) {
      if (!hasUsers && existsSync(empty)) return cpSync(empty, data, { recursive: true })
      // May not begin like an option.
      const id = randomBytes(16).toString('base64url').replace(/^-/, 'A')
      const users = ['SCRAM-SHA-256', 'SCRAM-SHA-512'].flatMap(mechanism => [
        '--add-scram',
        `${mechanism}=[name=bob,password=${PASSWORDS.bob}]`
      ])
      const tool = ['kafka.tools.StorageTool', 'format', '-t', id, '-c', file, ...(hasUsers ? users : [])]
      await done(spawn(program, [...quick, ...shared, ...rest, ...tool]), 'formatting')
      if (!hasUsers) keep(data, empty)
    },
    classes: made,
    keepClasses() {
      if (made !== null && existsSync(made)) keep(made, archive)
    }
  }
}

function installed(): string {
  let program: string
  try {
    program = realpathSync(execFileSync('sh', ['-c', 'command -v java'], { encoding: 'utf8' }).trim())
  } catch {
    throw new Error('java is missing, which runs Kafka: install the Debian package openjdk-17-jre-headless')
  }
  if (!existsSync(join(jars, '.installed')))
    throw new Error('Kafka is missing in test/servers/kafka: run "node config/install.mjs --for-tests"')
  return program
}

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

/** Below those that systems give to whoever asks for any, so that nobody takes one while the server is away. */
export async function freePorts(count: number): Promise<number[]> {
  const held: Server[] = []
  while (held.length < count) {
    const server = createServer()
    const isFree = await new Promise<boolean>(resolve => {
      server.once('error', () => resolve(false))
      server.listen(randomInt(15_000, 32_000), '127.0.0.1', () => resolve(true))
    })
    if (isFree) held.push(server)
  }
  const ports = held.map(server => (server.address() as { port: number }).port)
  await Promise.all(held.map(server => once(server.close(), 'close')))
  return ports
}
