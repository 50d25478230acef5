import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import type { Socket } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as pause } from 'node:timers/promises'
import { type Admin, Kafka, logLevel } from 'kafkajs'
import { certificate, der, extension, sequence } from './certificates.ts'
import { freePorts, java, PASSWORDS, type Properties, serverProperties } from './kafkaFiles.ts'
import type { Ending } from './postgres.ts'
import { guarded } from './serverProcess.ts'

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
  readonly properties?: Properties
  /** `bench`: all of the compiler and a larger heap, instead of a quick start. */
  readonly use?: 'test' | 'bench'
  /** What runs a program instead of itself, for instance on one core. */
  readonly wrap?: (program: string, args: readonly string[]) => [string, string[]]
}

/** Takes a second or two. It ends with the test. Tests of one file share one. */
export async function kafka(t: Ending, given: KafkaGiven = {}): Promise<TestKafka> {
  const {
    use = 'test',
    tls = false,
    sasl = false,
    properties = {},
    wrap = (program, args) => [program, [...args]]
  } = given
  const folder = mkdtempSync(join(tmpdir(), 'svc-kafka-'))
  t.teardown(() => rmSync(folder, { recursive: true, force: true }))
  const runner = java(folder, use)
  let child: ChildProcess | null = null
  let connected: Promise<Admin> | null = null
  t.teardown(async () => {
    await connected?.then(
      admin => admin.disconnect(),
      () => {}
    )
    // The first server of a machine leaves its loaded classes to the others, which takes an orderly end.
    await stop(runner.classes === null ? 'SIGKILL' : 'SIGTERM')
    runner.keepClasses()
  })

  const [plain, controller, tlsPort, saslPort] = (await freePorts(4)) as [number, number, number, number]
  const file = join(folder, 'server.properties')
  const ports = { plain, controller, tls: tlsPort, sasl: saslPort }
  writeFileSync(file, serverProperties(folder, ports, { tls, sasl }, properties))
  const served = certificate({ extensions: [loopback] })
  writeFileSync(join(folder, 'served.pem'), served.keyPem + served.pem)
  await runner.format(file, join(folder, 'data'), sasl)

  async function start(): Promise<void> {
    const [command, args] = wrap(runner.program, [...runner.args, file])
    const server = spawn(command, args, { cwd: folder, stdio: ['ignore', 'ignore', 'pipe'] })
    child = server
    const guard = guarded(server.pid, folder, 'KILL')
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

  const admin = () => {
    connected ??= (async () => {
      const retry = { initialRetryTime: 100, multiplier: 1.5, maxRetryTime: 1000, retries: 30 }
      const client = new Kafka({ brokers: [`127.0.0.1:${plain}`], logLevel: logLevel.NOTHING, retry }).admin()
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
    brokers: [`127.0.0.1:${plain}`],
    tls: tls ? { brokers: [`127.0.0.1:${tlsPort}`], ca: served.pem } : null,
    sasl: sasl ? { brokers: [`127.0.0.1:${saslPort}`], ...PASSWORDS } : null,
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

/** Names that clients of its listeners may call it by. */
const loopback = extension(
  '2.5.29.17',
  sequence(der(0x82, Buffer.from('localhost')), der(0x87, Buffer.of(127, 0, 0, 1)))
)
