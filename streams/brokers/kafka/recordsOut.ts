import type { Message } from '../../message.ts'
import { compress } from './codecs.ts'
import { crc32c } from './crc32c.ts'

/** Makes batches of records as they stand on the wire and in the log. https://kafka.apache.org/documentation/#recordbatch */

/** Who an idempotent batch comes from, so that a repeat of it is known. */
export interface Origin {
  readonly producerId: bigint
  readonly epoch: number
  /** Of the first record, in its partition. */
  readonly sequence: number
}

const headLength = 61
/** What the length of a batch does not count: its offset and the length. */
const lead = 12
const nobody: Origin = { producerId: -1n, epoch: -1, sequence: -1 }

/** @param codec number of the compression */
export function encodeBatch(
  messages: readonly Message[],
  timestamp: number,
  codec: number,
  origin: Origin | null
): Buffer | Promise<Buffer> {
  const lengths: number[] = []
  let size = 0
  for (let i = 0; i < messages.length; i++) {
    const length = recordLength(messages[i]!, i)
    lengths.push(length)
    size += varintLength(length) + length
  }
  const batch = Buffer.allocUnsafe(headLength + size)
  let at = headLength
  for (let i = 0; i < messages.length; i++) at = writeRecord(batch, at, messages[i]!, i, lengths[i]!)
  const from = origin ?? nobody
  if (codec === 0) return withHead(batch, messages.length, timestamp, 0, from)
  const packed = compress(codec, batch.subarray(headLength))
  const wrapped = (body: Buffer) =>
    withHead(Buffer.concat([Buffer.alloc(headLength), body]), messages.length, timestamp, codec, from)
  return packed instanceof Promise ? packed.then(wrapped) : wrapped(packed)
}

function withHead(batch: Buffer, count: number, timestamp: number, codec: number, origin: Origin): Buffer {
  batch.writeBigInt64BE(0n, 0)
  batch.writeInt32BE(batch.length - lead, 8)
  batch.writeInt32BE(-1, 12)
  batch.writeInt8(2, 16)
  batch.writeInt16BE(codec, 21)
  batch.writeInt32BE(count - 1, 23)
  batch.writeBigInt64BE(BigInt(timestamp), 27)
  batch.writeBigInt64BE(BigInt(timestamp), 35)
  batch.writeBigInt64BE(origin.producerId, 43)
  batch.writeInt16BE(origin.epoch, 51)
  batch.writeInt32BE(origin.sequence, 53)
  batch.writeInt32BE(count, 57)
  batch.writeUInt32BE(crc32c(batch, 21, batch.length), 17)
  return batch
}

function recordLength({ key, value, headers }: Message, index: number): number {
  // attributes and the distance of the timestamp, which is 0, take a byte each
  let length = 2 + varintLength(index) + bytesLength(key) + bytesLength(value) + varintLength(headers.length)
  for (const [name, content] of headers) {
    const size = Buffer.byteLength(name)
    length += varintLength(size) + size + bytesLength(content)
  }
  return length
}

function writeRecord(to: Buffer, at: number, { key, value, headers }: Message, index: number, length: number): number {
  at = writeVarint(to, at, length)
  to[at++] = 0
  to[at++] = 0
  at = writeVarint(to, at, index)
  at = writeBytes(to, at, key)
  at = writeBytes(to, at, value)
  at = writeVarint(to, at, headers.length)
  for (const [name, content] of headers) {
    at = writeVarint(to, at, Buffer.byteLength(name))
    at += to.write(name, at)
    at = writeBytes(to, at, content)
  }
  return at
}

const bytesLength = (bytes: Buffer | null) => (bytes === null ? 1 : varintLength(bytes.length) + bytes.length)

function writeBytes(to: Buffer, at: number, bytes: Buffer | null): number {
  if (bytes === null) return writeVarint(to, at, -1)
  at = writeVarint(to, at, bytes.length)
  return at + bytes.copy(to, at)
}

/** Signed numbers alternate, so that small ones of either sign are short. */
const zigzag = (number: number) => ((number << 1) ^ (number >> 31)) >>> 0

function varintLength(number: number): number {
  const word = zigzag(number)
  return word < 0x80 ? 1 : word < 0x4000 ? 2 : word < 0x200000 ? 3 : word < 0x10000000 ? 4 : 5
}

function writeVarint(to: Buffer, at: number, number: number): number {
  let word = zigzag(number)
  while (word >= 0x80) {
    to[at++] = (word & 0x7f) | 0x80
    word >>>= 7
  }
  to[at++] = word
  return at
}
