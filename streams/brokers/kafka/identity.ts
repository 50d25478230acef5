import { Undelivered } from '../../undelivered.ts'
import type { Cluster } from './cluster.ts'
import { codes, KafkaFault, reasonOf, undelivered } from './errors.ts'
import type { Origin } from './recordsOut.ts'

/** Who a lane of idempotent messages is to the brokers, and the next sequence of each partition. Given up when an outcome stays unknown. */
export class Identity {
  readonly #producerId: bigint
  readonly #epoch: number
  readonly #next = new Map<number, number>()

  constructor(producerId: bigint, epoch: number) {
    this.#producerId = producerId
    this.#epoch = epoch
  }

  origin(partition: number): Origin {
    return { producerId: this.#producerId, epoch: this.#epoch, sequence: this.#next.get(partition) ?? 0 }
  }

  /** So many more of its messages are in the partition. Sequences begin again after the largest number of 31 bits. */
  wrote(partition: number, count: number): void {
    this.#next.set(partition, ((this.#next.get(partition) ?? 0) + count) & 0x7fffffff)
  }
}

/** A new one. @throws Undelivered, LinkLost */
export async function identify(cluster: Cluster): Promise<Identity> {
  const link = await cluster.any()
  const { errorCode, producerId, producerEpoch } = await link.call<{
    errorCode: number
    producerId: string
    producerEpoch: number
  }>('InitProducerId', { transactionalId: null, transactionTimeout: 60_000 }, 5_000, { isUnchecked: true })
  // A cluster that has just started has no numbers to give for a moment.
  if (errorCode === codes.coordinatorLoading || errorCode === codes.coordinatorNotAvailable) {
    throw new Undelivered('unavailable', `no producer id (${errorCode})`)
  }
  if (errorCode !== 0) throw undelivered(reasonOf(errorCode), new KafkaFault(errorCode, 'producer id'))
  return new Identity(BigInt(producerId), producerEpoch)
}

/** The broker does not know the sequence, or not who sends it. */
export const isSequenceLost = (code: number): boolean =>
  code === codes.outOfOrderSequence ||
  code === codes.unknownProducerId ||
  code === codes.invalidProducerEpoch ||
  code === codes.invalidProducerId
