import type { Clock, Log } from '../../../config/world.ts'
import type { Broker, Position, Reading, Span } from '../../broker.ts'
import type { BrokerOptions } from '../../connector.ts'
import { clientOf } from './client.ts'
import { Cluster } from './cluster.ts'
import { Group } from './group.ts'
import { newest, offsetsAt, oldest } from './offsets.ts'
import { Producing } from './producing.ts'
import { Reader } from './reader.ts'
import { createTopic } from './topics.ts'

export interface BrokerKafkaGiven {
  readonly options: BrokerOptions
  readonly clock: Clock
  readonly log: Log
  /** How often readings look for partitions that were added, ms; 15 s unless told. */
  readonly refreshMs?: number
}

/**
 * Apache Kafka, 1.0 or newer. Connects when it is used first.
 * @throws Error naming an address that is none
 */
export function brokerKafka({ options, clock, log, refreshMs = 15_000 }: BrokerKafkaGiven): Broker {
  const client = clientOf(options, log)
  const cluster = new Cluster(client, clock, log)
  const producing = new Producing(cluster)
  const readings = new Set<Reading>()
  let closing: Promise<void> | null = null

  /** Until it is closed. */
  function kept(reading: Reading): Reading {
    readings.add(reading)
    const { pause, resume, commit } = reading
    return {
      pause: pause.bind(reading),
      resume: resume.bind(reading),
      commit: commit.bind(reading),
      close: () => reading.close().finally(() => readings.delete(reading))
    }
  }

  async function partitionsOf(topic: string): Promise<number[]> {
    const { leaders } = await cluster.refresh(topic)
    return leaders.map((_, partition) => partition)
  }

  async function close(): Promise<void> {
    await Promise.all([producing.close(), ...[...readings].map(reading => reading.close())])
    cluster.close()
  }

  return {
    name: `kafka://${client.addresses.map(({ host, port }) => (host.includes(':') ? `[${host}]:${port}` : `${host}:${port}`)).join(',')}`,
    produce: what => producing.produce(what),

    partitions(topic) {
      const known = cluster.topic(topic)
      return known instanceof Promise ? known.then(({ leaders }) => leaders.length) : known.leaders.length
    },

    async spans(topic) {
      const partitions = await partitionsOf(topic)
      const low = await offsetsAt(cluster, topic, partitions, oldest)
      const high = await offsetsAt(cluster, topic, partitions, newest)
      return partitions.map(
        (partition): Span => ({ topic, partition, low: low.get(partition)!, high: high.get(partition)! })
      )
    },

    async positionsAt(topic, ms) {
      const partitions = await partitionsOf(topic)
      const found = await offsetsAt(cluster, topic, partitions, Math.max(0, ms))
      const high = await offsetsAt(cluster, topic, partitions, newest)
      return partitions.map((partition): Position => {
        const offset = found.get(partition) ?? -1
        return { topic, partition, offset: offset < 0 ? high.get(partition)! : offset }
      })
    },

    join: (how, to) => kept(new Group(cluster, log, how, refreshMs, to)),
    read: (from, isExact, to) => kept(new Reader(cluster, log, from, isExact, refreshMs, to)),
    state: () => cluster.state(),
    onState: listener => cluster.onState(listener),
    createTopic: (topic, partitions, replicas) => createTopic(cluster, topic, partitions, replicas),
    close: () => (closing ??= close())
  }
}
