import type { Arrived } from '../../message.ts'
import { crc32c } from './crc32c.ts'

/** Reads batches of records as they stand on the wire and in the log. https://kafka.apache.org/documentation/#recordbatch */

const headLength = 61
/** What the length of a batch does not count: its offset and the length. */
const lead = 12

/** The head of a batch that was fetched. */
export interface Head {
  readonly from: number
  /** Offset behind its last record. */
  readonly to: number
  readonly magic: number
  readonly codec: number
  readonly isTransactional: boolean
  /** Says how a transaction ended; holds no message. */
  readonly isControl: boolean
  readonly producerId: bigint
  readonly count: number
  readonly bytes: Buffer
}

/** Of the batch that begins at `at`; null: it is not all there. @throws RangeError */
export function headAt(bytes: Buffer, at: number): Head | null {
  if (at + lead + 5 > bytes.length) return null
  const end = at + lead + bytes.readInt32BE(at + 8)
  const magic = bytes.readInt8(at + 16)
  if (end > bytes.length || end <= at + lead) return null
  const from = Number(bytes.readBigInt64BE(at))
  const batch = bytes.subarray(at, end)
  // The format before Kafka 0.11. The offset of a compressed one is that of its last message.
  if (magic !== 2) {
    return {
      from,
      to: from + 1,
      magic,
      codec: 0,
      isTransactional: false,
      isControl: false,
      producerId: -1n,
      count: 0,
      bytes: batch
    }
  }
  const attributes = batch.readInt16BE(21)
  return {
    from,
    to: from + batch.readInt32BE(23) + 1,
    magic,
    codec: attributes & 7,
    isTransactional: (attributes & 16) !== 0,
    isControl: (attributes & 32) !== 0,
    producerId: batch.readBigInt64BE(43),
    count: batch.readInt32BE(57),
    bytes: batch
  }
}

/** Null: it is whole. */
export function brokenBy({ bytes, magic }: Head): string | null {
  if (magic !== 2) return `a format of records that ended with Kafka 0.11 (${magic})`
  if (bytes.readUInt32BE(17) !== crc32c(bytes, 21, bytes.length)) return 'its checksum is wrong'
  return null
}

/** How the transaction of a control batch ended. */
export function isCommit({ bytes }: Head): boolean {
  const cursor = new Cursor(bytes, headLength)
  cursor.varint()
  cursor.at += 1
  cursor.varlong()
  cursor.varint()
  const key = cursor.bytes()
  return key !== null && key.length >= 4 && key.readInt16BE(2) === 1
}

/**
 * Its records from offset `position` on. Each holds a copy of its bytes: a message that is kept somewhere must not keep megabytes.
 * @param body the part behind the head, unpacked
 * @throws RangeError when it is broken
 */
export function recordsOf(head: Head, body: Buffer, topic: string, partition: number, position: number): Arrived[] {
  const base = Number(head.bytes.readBigInt64BE(27))
  // log append time: all records have the batch's
  const fixed = head.bytes.readInt16BE(21) & 8 ? Number(head.bytes.readBigInt64BE(35)) : null
  const records: Arrived[] = []
  let at = 0
  for (let i = 0; i < head.count; i++) {
    const outer = new Cursor(body, at)
    const length = outer.varint()
    const end = outer.at + length
    if (length < 0 || end > body.length) throw new RangeError('a record reaches beyond its batch')
    const begin = outer.at
    at = end
    outer.at += 1
    const timestamp = base + outer.varlong()
    const offset = head.from + outer.varint()
    if (offset < position) continue
    const cursor = new Cursor(Buffer.from(body.subarray(begin, end)), outer.at - begin)
    const key = cursor.bytes()
    const value = cursor.bytes()
    const count = cursor.varint()
    if (count < 0 || count > length) throw new RangeError('a record has an impossible number of headers')
    const headers: [string, Buffer][] = []
    for (let j = 0; j < count; j++) {
      headers.push([cursor.bytes()?.toString() ?? '', cursor.bytes() ?? Buffer.alloc(0)])
    }
    records.push({ topic, partition, offset, timestamp: fixed ?? timestamp, key, value, headers })
  }
  return records
}

export const bodyOf = ({ bytes }: Head): Buffer => bytes.subarray(headLength)

class Cursor {
  readonly #buffer: Buffer
  at: number
  constructor(buffer: Buffer, at: number) {
    this.#buffer = buffer
    this.at = at
  }

  varint(): number {
    let word = 0
    let shift = 0
    for (;;) {
      const byte = this.#byte()
      word |= (byte & 0x7f) << shift
      if (byte < 0x80) return (word >>> 1) ^ -(word & 1)
      shift += 7
      if (shift > 28) return this.#last(word)
    }
  }

  /** Safe integers only, which milliseconds are. */
  varlong(): number {
    let word = 0
    for (let factor = 1, bytes = 0; bytes < 10; factor *= 128, bytes++) {
      const byte = this.#byte()
      word += (byte & 0x7f) * factor
      if (byte < 0x80) return word % 2 === 0 ? word / 2 : -(word + 1) / 2
    }
    throw new RangeError('a number without an end')
  }

  /** Null: none. */
  bytes(): Buffer | null {
    const length = this.varint()
    if (length < 0) return null
    const end = this.at + length
    if (end > this.#buffer.length) throw new RangeError('bytes reach beyond their record')
    const part = this.#buffer.subarray(this.at, end)
    this.at = end
    return part
  }

  #last(word: number): number {
    const byte = this.#byte()
    if (byte > 15) throw new RangeError('a number without an end')
    word |= byte << 28
    return (word >>> 1) ^ -(word & 1)
  }

  #byte(): number {
    const byte = this.#buffer[this.at++]
    if (byte === undefined) throw new RangeError('a record ends too soon')
    return byte
  }
}
