import type { Random } from '../../config/world.ts'

/** Which partition a message goes to (streams R29): chosen here, so that the answer can tell where it went. */

export type PartitionerName = 'fnv1a_hash' | 'murmur2_hash' | 'random' | 'round_robin'

export interface Partitioner {
  /** @param partitions how many there are, 1 or more */
  pick(key: Buffer | null, partitions: number): number
  /** The next ones come together: those without a key may stay together. */
  turn(): void
}

export function partitioner(name: PartitionerName, random: Random): Partitioner {
  const next = numbers(random)
  let turn = 0
  switch (name) {
    case 'fnv1a_hash':
      return {
        // As sarama: the hash as a signed number, its remainder without the sign.
        pick: (key, partitions) => (key === null ? next() % partitions : Math.abs(fnv1a(key) % partitions)),
        turn() {}
      }
    case 'murmur2_hash':
      return {
        // As Kafka's own producer: without the sign bit; what has no key sticks to one partition for a while.
        pick: (key, partitions) => (key === null ? turn % partitions : (murmur2(key) & 0x7fffffff) % partitions),
        turn() {
          turn = next()
        }
      }
    case 'random':
      return { pick: (_key, partitions) => next() % partitions, turn() {} }
    case 'round_robin':
      return {
        pick: (_key, partitions) => {
          turn = (turn + 1) >>> 0
          return turn % partitions
        },
        turn() {}
      }
  }
}

/** Numbers of 32 bits; many are drawn at once, since a draw costs a microsecond. */
function numbers(random: Random): () => number {
  const POOL = 1024
  let pool: Buffer = Buffer.alloc(0)
  let at = 0
  return () => {
    if (at + 4 > pool.length) {
      pool = random.bytes(POOL)
      at = 0
    }
    at += 4
    return pool.readUInt32LE(at - 4)
  }
}

/** FNV-1a of 32 bits, as a signed number. */
export function fnv1a(bytes: Buffer): number {
  let hash = 0x811c9dc5
  for (let i = 0; i < bytes.length; i++) hash = Math.imul(hash ^ bytes[i]!, 0x01000193)
  return hash | 0
}

/** MurmurHash2 with Kafka's seed, as a signed number. */
export function murmur2(bytes: Buffer): number {
  const { length } = bytes
  const M = 0x5bd1e995
  let hash = 0x9747b28c ^ length
  const whole = length & ~3
  for (let i = 0; i < whole; i += 4) {
    let part = Math.imul(bytes.readInt32LE(i), M)
    part = Math.imul(part ^ (part >>> 24), M)
    hash = Math.imul(hash, M) ^ part
  }
  if (length > whole) {
    for (let i = length - 1; i >= whole; i--) hash ^= bytes[i]! << (8 * (i - whole))
    hash = Math.imul(hash, M)
  }
  hash = Math.imul(hash ^ (hash >>> 13), M)
  return (hash ^ (hash >>> 15)) | 0
}
