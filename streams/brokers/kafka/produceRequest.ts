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
 * A Produce request (versions 3 to 8) of one topic whose batches are made already: kafkajs' own way takes some ten microseconds a message.
 * https://kafka.apache.org/protocol#The_Messages_Produce
 */
export function produceRequest(topic: string, acks: number, timeoutMs: number, parts: readonly Part[]): Own {
  return {
    isUnchecked: true,
    encode(apiVersion) {
      if (apiVersion < 3) throw new Error('the broker is older than Kafka 0.11')
      const name = Buffer.from(topic)
      let size = 2 + 2 + 4 + 4 + 2 + name.length + 4
      for (const { encoded } of parts) size += 8 + encoded!.length
      const request = Buffer.allocUnsafe(size)
      let at = request.writeInt16BE(-1, 0)
      at = request.writeInt16BE(acks, at)
      at = request.writeInt32BE(timeoutMs, at)
      at = request.writeInt32BE(1, at)
      at = request.writeInt16BE(name.length, at)
      at += name.copy(request, at)
      at = request.writeInt32BE(parts.length, at)
      for (const { partition, encoded } of parts) {
        at = request.writeInt32BE(partition, at)
        at = request.writeInt32BE(encoded!.length, at)
        at += encoded!.copy(request, at)
      }
      return request
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
