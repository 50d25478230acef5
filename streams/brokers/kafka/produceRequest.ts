import type { Part } from './call.ts'
import type { Own } from './link.ts'

/** What became of one partition's batch. */
export interface Written {
  readonly partition: number
  /** 0: written. */
  readonly code: number
  /** Of its first record. */
  readonly offset: number
  /** When the broker's clock counts, ms; -1: the sender's does. */
  readonly timestamp: number
}

interface Answer {
  readonly topics: readonly {
    readonly partitions: readonly {
      readonly partition: number
      readonly errorCode: number
      readonly baseOffset: string
      readonly logAppendTime: string
    }[]
  }[]
}

/**
 * A Produce request (versions 3 to 8) of one topic whose batches are made already: kafkajs’ own way takes some ten microseconds a message.
 * https://kafka.apache.org/protocol#The_Messages_Produce
 */
export function produceRequest(topic: string, acks: number, timeoutMs: number, parts: readonly Part[]): Own {
  return {
    isUnchecked: true,
    pieces(apiVersion) {
      if (apiVersion < 3) throw new Error('the broker is older than Kafka 0.11')
      const name = Buffer.from(topic)
      const head = Buffer.allocUnsafe(2 + 2 + 4 + 4 + 2 + name.length + 4)
      let at = head.writeInt16BE(-1, 0)
      at = head.writeInt16BE(acks, at)
      at = head.writeInt32BE(timeoutMs, at)
      at = head.writeInt32BE(1, at)
      at = head.writeInt16BE(name.length, at)
      at += name.copy(head, at)
      head.writeInt32BE(parts.length, at)
      const pieces: Buffer[] = [head]
      for (const { partition, encoded } of parts) {
        const place = Buffer.allocUnsafe(8)
        place.writeInt32BE(partition, 0)
        place.writeInt32BE(encoded!.length, 4)
        pieces.push(place, encoded!)
      }
      return pieces
    }
  }
}

export function writtenOf(answer: unknown): Written[] {
  const { topics } = answer as Answer
  return topics.flatMap(({ partitions }) =>
    partitions.map(({ partition, errorCode, baseOffset, logAppendTime }) => ({
      partition,
      code: errorCode,
      offset: Number(baseOffset),
      timestamp: Number(logAppendTime)
    }))
  )
}
