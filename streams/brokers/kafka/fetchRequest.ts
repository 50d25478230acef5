/** What a Fetch answer holds of one partition. */
export interface Fetched {
  readonly topic: string
  readonly partition: number
  readonly code: number
  /** Offset of the next record to come. */
  readonly high: number
  /** Transactions among its records that were given up, by where they begin. */
  readonly aborted: readonly { readonly producerId: bigint; readonly from: number }[]
  /** Node that has it and is nearer; -1: none. */
  readonly nearer: number
  /** Batches; the last one may be cut off. */
  readonly batches: Buffer
}

/**
 * The answer to a Fetch request, versions 4 to 11, with its batches unread: kafkajs reads all of them, and one that it cannot read
 * fails the whole answer. https://kafka.apache.org/protocol#The_Messages_Fetch
 * @throws RangeError when it is broken
 */
export function fetchedOf(raw: Buffer, apiVersion: number): Fetched[] {
  if (apiVersion < 4) throw new Error('the broker is older than Kafka 0.11')
  const all: Fetched[] = []
  let at = 4
  if (apiVersion >= 7) at += 6
  const topics = raw.readInt32BE(at)
  at += 4
  for (let i = 0; i < topics; i++) {
    const nameLength = raw.readInt16BE(at)
    const topic = raw.toString('utf8', at + 2, at + 2 + nameLength)
    at += 2 + nameLength
    const partitions = raw.readInt32BE(at)
    at += 4
    for (let j = 0; j < partitions; j++) {
      const partition = raw.readInt32BE(at)
      const code = raw.readInt16BE(at + 4)
      const high = Number(raw.readBigInt64BE(at + 6))
      // then the last stable offset, and since version 5 the first offset
      at += apiVersion >= 5 ? 30 : 22
      const aborted: { producerId: bigint; from: number }[] = []
      const count = raw.readInt32BE(at)
      at += 4
      for (let k = 0; k < count; k++) {
        aborted.push({ producerId: raw.readBigInt64BE(at), from: Number(raw.readBigInt64BE(at + 8)) })
        at += 16
      }
      let nearer = -1
      if (apiVersion >= 11) {
        nearer = raw.readInt32BE(at)
        at += 4
      }
      const size = Math.max(0, raw.readInt32BE(at))
      at += 4
      all.push({ topic, partition, code, high, aborted, nearer, batches: raw.subarray(at, at + size) })
      at += size
    }
  }
  return all
}
