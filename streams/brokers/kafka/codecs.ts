import { createRequire } from 'node:module'
import { promisify } from 'node:util'
import { gunzip, gzip, zstdCompress, zstdDecompress } from 'node:zlib'
import { compressFrame, decompressFrame } from 'lz4-napi'
import type { Compression } from '../../broker.ts'

/** How batches are compressed on the wire. What would become more than this is refused: a few kilobytes can hold gigabytes. */
const maxOutputLength = 64 << 20

interface Snappy {
  compress(bytes: Buffer): Buffer
  uncompress(bytes: Buffer, most: number): Buffer
}

const snappy = createRequire(import.meta.url)('snappyjs') as Snappy
const [zip, unzip] = [promisify(gzip), promisify(gunzip)]
const [zstd, unzstd] = [promisify(zstdCompress), promisify(zstdDecompress)]

/** The number in a batch's attributes. https://kafka.apache.org/documentation/#recordbatch */
export const numbers: Readonly<Record<Compression, number>> = { none: 0, gzip: 1, snappy: 2, lz4: 3, zstd: 4 }

export function compress(number: number, bytes: Buffer): Buffer | Promise<Buffer> {
  switch (number) {
    case 1:
      return zip(bytes)
    case 2:
      return framed(bytes)
    case 3:
      return compressFrame(bytes)
    case 4:
      return zstd(bytes)
    default:
      return bytes
  }
}

/** @throws Error: an unknown codec, garbage, or more than 64 MiB */
export function decompress(number: number, bytes: Buffer): Buffer | Promise<Buffer> {
  switch (number) {
    case 0:
      return bytes
    case 1:
      return unzip(bytes, { maxOutputLength })
    case 2:
      return unframed(bytes)
    case 3:
      if (lz4Size(bytes) > maxOutputLength) throw new Error('an lz4 frame of more than 64 MiB')
      return decompressFrame(bytes)
    case 4:
      return unzstd(bytes, { maxOutputLength })
    default:
      throw new Error(`unknown codec ${number}`)
  }
}

// What the Java client writes around snappy (xerial): a head, then blocks with their lengths. Other clients write one bare block.
const snappyHead = Buffer.from([0x82, 0x53, 0x4e, 0x41, 0x50, 0x50, 0x59, 0, 0, 0, 0, 1, 0, 0, 0, 1])
const snappyBlock = 32 << 10

function framed(bytes: Buffer): Buffer {
  const parts: Buffer[] = [snappyHead]
  for (let from = 0; from < bytes.length; from += snappyBlock) {
    const block = snappy.compress(bytes.subarray(from, from + snappyBlock))
    const length = Buffer.allocUnsafe(4)
    length.writeInt32BE(block.length)
    parts.push(length, block)
  }
  return Buffer.concat(parts)
}

function unframed(bytes: Buffer): Buffer {
  if (bytes.length < 16 || bytes.compare(snappyHead, 0, 8, 0, 8) !== 0) return snappy.uncompress(bytes, maxOutputLength)
  const parts: Buffer[] = []
  let left = maxOutputLength
  for (let at = 16; at < bytes.length; ) {
    const end = at + 4 + bytes.readInt32BE(at)
    if (end <= at || end > bytes.length) throw new Error('a broken snappy frame')
    const block = snappy.uncompress(bytes.subarray(at + 4, end), left)
    left -= block.length
    parts.push(block)
    at = end
  }
  return Buffer.concat(parts)
}

/**
 * Bytes that an LZ4 frame will take when unpacked, from walking its sequences without making them: the unpacking itself has no bound.
 * https://github.com/lz4/lz4/blob/dev/doc/lz4_Frame_format.md
 * @throws RangeError when it is broken
 */
function lz4Size(bytes: Buffer): number {
  if (bytes.readUInt32LE(0) !== 0x184d2204) throw new Error('not an lz4 frame')
  const flags = bytes.readUInt8(4)
  let at = 7 + (flags & 8 ? 8 : 0) + (flags & 1 ? 4 : 0)
  let size = 0
  for (let word = bytes.readUInt32LE(at); word !== 0; word = bytes.readUInt32LE(at)) {
    const length = word & 0x7fffffff
    at += 4
    const end = at + length
    size += word >= 0x80000000 ? length : lz4BlockSize(bytes, at, end)
    at = end + (flags & 16 ? 4 : 0)
  }
  return size
}

function lz4BlockSize(bytes: Buffer, at: number, end: number): number {
  let size = 0
  while (at < end) {
    const token = bytes.readUInt8(at++)
    let literals = token >> 4
    if (literals === 15) {
      let more: number
      do {
        more = bytes.readUInt8(at++)
        literals += more
      } while (more === 255)
    }
    size += literals
    at += literals
    // The last sequence of a block has literals only.
    if (at >= end) break
    at += 2
    let copied = (token & 15) + 4
    if ((token & 15) === 15) {
      let more: number
      do {
        more = bytes.readUInt8(at++)
        copied += more
      } while (more === 255)
    }
    size += copied
  }
  return size
}
