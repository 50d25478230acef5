import { argon2Sync, randomBytes, timingSafeEqual } from 'node:crypto'

/** argon2id (RFC 9106) as PHC strings: `$argon2id$v=19$m=KIB,t=PASSES,p=LANES$salt$hash`, base64 without padding. */

export interface Argon2id {
  readonly memoryKib: number
  readonly passes: number
  readonly lanes: number
  readonly salt: Buffer
  readonly hash: Buffer
}

/** What a new hash costs, some 30 ms of a core: the smallest choice that OWASP's password storage sheet names with two passes. */
const OWN = { memoryKib: 19_456, passes: 2, lanes: 1 } as const
const SALT_BYTES = 16
const HASH_BYTES = 32

/** A hash from elsewhere that asks for more would take the machine's memory, or hold the thread up for seconds. */
const MOST = { memoryKib: 262_144, passes: 10, lanes: 8 } as const
/** RFC 9106 §3.1 allows hashes from 4 bytes on; those can be guessed. */
const LEAST_HASH_BYTES = 16

const PHC =
  /^\$argon2id\$v=19\$m=([1-9]\d{0,6}),t=([1-9]\d?),p=([1-9])\$([A-Za-z0-9+/]{11,86})\$([A-Za-z0-9+/]{22,86})$/

export function isArgon2id(text: string): boolean {
  return text.startsWith('$argon2id$')
}

/** Null: it is no such hash, or costs more than a verification may. */
export function readArgon2id(text: string): Argon2id | null {
  const found = PHC.exec(text)
  if (found === null) return null
  const [memoryKib, passes, lanes] = [Number(found[1]), Number(found[2]), Number(found[3])] as [number, number, number]
  if (memoryKib > MOST.memoryKib || passes > MOST.passes || lanes > MOST.lanes) return null
  // RFC 9106 §3.1.
  if (memoryKib < 8 * lanes) return null
  const salt = bytesOf(found[4]!)
  const hash = bytesOf(found[5]!)
  return salt === null || hash === null || hash.length < LEAST_HASH_BYTES
    ? null
    : { memoryKib, passes, lanes, salt, hash }
}

/** Null: not the base64 that these bytes have. */
function bytesOf(text: string): Buffer | null {
  const bytes = Buffer.from(text, 'base64')
  return unpadded(bytes) === text ? bytes : null
}

function unpadded(bytes: Buffer): string {
  return bytes.toString('base64').replace(/=+$/, '')
}

/** Takes its time: for a thread that may. */
export function hashArgon2id(text: string): string {
  const salt = randomBytes(SALT_BYTES)
  const hash = derived(text, { ...OWN, salt }, HASH_BYTES)
  return `$argon2id$v=19$m=${OWN.memoryKib},t=${OWN.passes},p=${OWN.lanes}$${unpadded(salt)}$${unpadded(hash)}`
}

/** Takes its time: for a thread that may. What is no hash, or too costly, fits nothing. */
export function fitsArgon2id(text: string, hash: string): boolean {
  const read = readArgon2id(hash)
  return read !== null && timingSafeEqual(derived(text, read, read.hash.length), read.hash)
}

function derived(text: string, { memoryKib, passes, lanes, salt }: Omit<Argon2id, 'hash'>, tagLength: number): Buffer {
  return argon2Sync('argon2id', {
    message: text,
    nonce: salt,
    memory: memoryKib,
    passes,
    parallelism: lanes,
    tagLength
  })
}
