import type { Arrived, Message, Placed } from './message.ts'

/** The port of all messaging. `brokerMemory` and `brokerKafka` pass `test/contract/broker.ts`. */

export type Compression = 'none' | 'gzip' | 'snappy' | 'lz4' | 'zstd'

export interface Produce {
  readonly topic: string
  readonly messages: readonly (Message & { readonly partition: number })[]
  /** Acknowledged by the partition's leader alone, or by all replicas in sync. */
  readonly acks: 'leader' | 'all'
  readonly compression: Compression
  /** The broker drops repeats of one message. */
  readonly isIdempotent: boolean
  /** Milliseconds since the epoch; what has not been acknowledged by then is given up. */
  readonly deadline: number
}

export interface Place {
  readonly topic: string
  readonly partition: number
}

export interface Position extends Place {
  /** The next one to read. */
  readonly offset: number
}

/** What a partition holds now. */
export interface Span extends Place {
  /** Offset of the oldest record. */
  readonly low: number
  /** Offset of the next record to come. */
  readonly high: number
}

/** How a group reads. */
export interface Joining {
  readonly topics: readonly string[]
  readonly group: string
  /** Where a group begins that has no commit. */
  readonly start: 'earliest' | 'latest'
  readonly isolation: 'read_uncommitted' | 'read_committed'
  readonly sessionMs: number
  readonly heartbeatMs: number
  readonly rebalanceMs: number
  /** '' none */
  readonly rackId: string
}

/** Takes what a broker reads. Nothing in it may throw or wait: who has enough pauses the partition. */
export interface Taker {
  /**
   * The partitions that are read from now on, and where: all of them, so those not named are lost. Comes before any of
   * their records, and again after every change.
   */
  assigned(positions: readonly Position[]): void
  /** Records of one partition in order of their offsets; never one below the position. `high`: offset of the next record to come. */
  records(place: Place, records: readonly Arrived[], high: number): void
  /**
   * History is gone: what lies from `from` up to `to` cannot be read any more. Both the same, below what came before: the log was made
   * anew, or has lost its end, and is read from there.
   */
  gap(place: Place, from: number, to: number): void
  /** Reading stands still, with the reason for the log; null: it goes on. The broker tries again by itself. */
  state(fault: string | null): void
}

export interface Reading {
  /** Idempotent; holds across whatever the broker does by itself (reconnecting, rebalancing). Records under way may still come. */
  pause(place: Place): void
  resume(place: Place): void
  /**
   * Of a group: everything below these offsets is done. Rejects when it could not be kept (partition lost, broker away); the next
   * commit makes up for it. Of a reader without a group: nothing.
   */
  commit(positions: readonly Position[]): Promise<void>
  /** Leaves at once and resolves when that is done; no call of the taker comes after this one. */
  close(): Promise<void>
}

export interface BrokerState {
  readonly isUp: boolean
  /** For the log and the status page; without credentials. Null: nothing is wrong. */
  readonly fault: string | null
}

export interface Broker {
  /** For logs: addresses without credentials. */
  readonly name: string
  /**
   * Appends; answers where each went, in order. Messages of one call to one partition stay in order, and calls to one partition in the order in
   * which they were made.
   * @throws Undelivered: all of the call, or the part of it that is not known to be written, was not acknowledged
   */
  produce(what: Produce): Promise<readonly Placed[]>
  /** How many partitions a topic has, asked seldom and remembered. @throws Undelivered */
  partitions(topic: string): number | Promise<number>
  /** @throws Undelivered */
  spans(topic: string): Promise<readonly Span[]>
  /** Of each partition, the first offset whose record is not older than `ms` since the epoch; its `high` when none is. @throws Undelivered */
  positionsAt(topic: string, ms: number): Promise<readonly Position[]>
  /** Reads as a member of a group, which parts the partitions among its members. */
  join(how: Joining, to: Taker): Reading
  /**
   * Reads from these positions, alone and without commits. Partitions that their topics gain later are read from their
   * beginning, unless `isExact`: then only what is named.
   */
  read(from: readonly Position[], isExact: boolean, to: Taker): Reading
  /** The newest state. The listener hears of every change; the answer ends the listening. */
  state(): BrokerState
  onState(listener: (state: BrokerState) => void): () => void
  /** Creates it if it is missing; what is below 1 is the broker's default. @throws Undelivered */
  createTopic(topic: string, partitions: number, replicas: number): Promise<void>
  close(): Promise<void>
}
