/** CRC-32C (Castagnoli, RFC 3720 B.4), which guards every batch of records; eight bytes a step, some 1 GB/s. */

const polynomial = 0x82f63b78
const tables = Array.from({ length: 8 }, () => new Int32Array(256))
for (let i = 0; i < 256; i++) {
  let crc = i
  for (let bit = 0; bit < 8; bit++) crc = crc & 1 ? (crc >>> 1) ^ polynomial : crc >>> 1
  tables[0]![i] = crc
}
for (let i = 0; i < 256; i++) {
  for (let table = 1; table < 8; table++) {
    const before = tables[table - 1]![i]!
    tables[table]![i] = tables[0]![before & 255]! ^ (before >>> 8)
  }
}
const [t0, t1, t2, t3, t4, t5, t6, t7] = tables as [
  Int32Array,
  Int32Array,
  Int32Array,
  Int32Array,
  Int32Array,
  Int32Array,
  Int32Array,
  Int32Array
]

export function crc32c(bytes: Buffer, from: number, to: number): number {
  let crc = -1
  let i = from
  for (; i + 8 <= to; i += 8) {
    const low = crc ^ (bytes[i]! | (bytes[i + 1]! << 8) | (bytes[i + 2]! << 16) | (bytes[i + 3]! << 24))
    crc =
      t7[low & 255]! ^
      t6[(low >>> 8) & 255]! ^
      t5[(low >>> 16) & 255]! ^
      t4[low >>> 24]! ^
      t3[bytes[i + 4]!]! ^
      t2[bytes[i + 5]!]! ^
      t1[bytes[i + 6]!]! ^
      t0[bytes[i + 7]!]!
  }
  for (; i < to; i++) crc = t0[(crc ^ bytes[i]!) & 255]! ^ (crc >>> 8)
  return ~crc >>> 0
}
