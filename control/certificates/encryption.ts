import { createDecipheriv, createHash, createHmac, pbkdf2 as pbkdf2Later, scrypt as scryptLater } from 'node:crypto'
import { setImmediate as nextTurn } from 'node:timers/promises'
import { promisify } from 'node:util'
import { Refused } from '../endpoint.ts'
import { children, childrenOf, count, type Element, OID, octets, oidText, SEQUENCE, tagged, Unreadable } from './der.ts'

/**
 * Encryption with a password, as PKCS#8 and PKCS#12 know it: PBES2 (RFC 8018 §6.2), the older kind of PKCS#12 with
 * triple DES (RFC 7292 appendix B), and the codes that tell a wrong password. Whoever uploads says how much work
 * deriving the key is, so it is bounded, and done beside or between other work.
 */

const pbkdf2 = promisify(pbkdf2Later)
const scrypt = promisify<Buffer, Buffer, number, object, Buffer>(scryptLater)

/** Some seconds of one thread. */
const MOST_ITERATIONS = 2_000_000
/** The same of the older kind, which is derived on the event loop. */
const MOST_OLD_ITERATIONS = 200_000
const MOST_SCRYPT_MEMORY = 64 * 1024 * 1024
/** Hashes between two turns of others. */
const TURN = 1000

const WRONG = 'The password is wrong'
const tooMuch = () => new Refused(400, 'The file asks for more work to derive its key than is allowed')
const UNKNOWN =
  'The file is encrypted in a way that is not supported: write it anew with AES, ' +
  'e.g. openssl pkcs12 -export without -legacy'

const PBES2 = '1.2.840.113549.1.5.13'
const PBKDF2 = '1.2.840.113549.1.5.12'
const PBMAC1 = '1.2.840.113549.1.5.14'
const SCRYPT = '1.3.6.1.4.1.11591.4.11'
/** HMAC of RFC 8018 appendix B.1, by their number behind this prefix. */
const HMAC = '1.2.840.113549.2.'
const hmacs: Readonly<Record<string, string>> = {
  [`${HMAC}7`]: 'sha1',
  [`${HMAC}8`]: 'sha224',
  [`${HMAC}9`]: 'sha256',
  [`${HMAC}10`]: 'sha384',
  [`${HMAC}11`]: 'sha512'
}
const hashes: Readonly<Record<string, string>> = {
  '1.3.14.3.2.26': 'sha1',
  '2.16.840.1.101.3.4.2.4': 'sha224',
  '2.16.840.1.101.3.4.2.1': 'sha256',
  '2.16.840.1.101.3.4.2.2': 'sha384',
  '2.16.840.1.101.3.4.2.3': 'sha512'
}

interface Cipher {
  readonly name: string
  readonly keyLength: number
}
const ciphers: Readonly<Record<string, Cipher>> = {
  '2.16.840.1.101.3.4.1.2': { name: 'aes-128-cbc', keyLength: 16 },
  '2.16.840.1.101.3.4.1.22': { name: 'aes-192-cbc', keyLength: 24 },
  '2.16.840.1.101.3.4.1.42': { name: 'aes-256-cbc', keyLength: 32 },
  '1.2.840.113549.3.7': { name: 'des-ede3-cbc', keyLength: 24 }
}
/** RFC 7292 appendix C; the others there (RC2, RC4) OpenSSL itself has given up. */
const oldCiphers: Readonly<Record<string, Cipher>> = {
  '1.2.840.113549.1.12.1.3': { name: 'des-ede3-cbc', keyLength: 24 }
}

/**
 * @param algorithm an AlgorithmIdentifier (RFC 5280 §4.1.1.2)
 * @throws Refused 400 when the password is wrong, the way unknown or the work too much; Unreadable
 */
export async function decrypted(algorithm: Element | undefined, encrypted: Buffer, password: string): Promise<Buffer> {
  const [type, parameters] = childrenOf(algorithm, SEQUENCE)
  const named = oidText(type)
  if (named === PBES2) return pbes2(parameters, encrypted, password)
  const cipher = known(oldCiphers, named)
  const [salt, iterations] = childrenOf(parameters, SEQUENCE)
  const derive = (id: number, length: number, form: Buffer) =>
    oldKey('sha1', { id, length, password: form, salt: octets(salt), iterations: count(iterations) })
  for (const form of oldForms(password)) {
    const bytes = opened(cipher, await derive(1, cipher.keyLength, form), await derive(2, 8, form), encrypted)
    if (bytes !== null) return bytes
  }
  throw new Refused(400, WRONG)
}

/**
 * The encryption of PEM from before PKCS#8: the cipher stands in a header, the key is made with one round of MD5
 * (RFC 1421 §4.6.1.3, OpenSSL's EVP_BytesToKey).
 * @throws Refused 400
 */
export function headersDecrypted(headers: string, encrypted: Buffer, password: string): Buffer {
  const [, name = '', hex = ''] = /^DEK-Info: *([A-Z0-9-]{1,40}),([0-9A-F]{1,64})$/im.exec(headers) ?? []
  const cipher = Object.values(ciphers).find(known => known.name === name.toLowerCase())
  if (cipher === undefined) throw new Refused(400, UNKNOWN)
  const iv = Buffer.from(hex, 'hex')
  const made: Buffer[] = [Buffer.alloc(0)]
  for (let size = 0; size < cipher.keyLength; size += 16)
    made.push(createHash('md5').update(made.at(-1)!).update(password).update(iv.subarray(0, 8)).digest())
  const bytes = opened(cipher, Buffer.concat(made).subarray(0, cipher.keyLength), iv, encrypted)
  if (bytes === null) throw new Refused(400, WRONG)
  return bytes
}

/**
 * Holds the code of a PKCS#12 file (MacData, RFC 7292 §4) against what it was made of.
 * @throws Refused 400; Unreadable
 */
export async function authenticate(macData: Element, content: Buffer, password: string): Promise<void> {
  const [digestInfo, salt, iterations] = childrenOf(macData, SEQUENCE)
  const [algorithm, digest] = childrenOf(digestInfo, SEQUENCE)
  const [type, parameters] = childrenOf(algorithm, SEQUENCE)
  const wanted = octets(digest)
  const code = (hash: string, key: Buffer) => createHmac(hash, key).update(content).digest()
  if (oidText(type) === PBMAC1) {
    const [derivation, scheme] = childrenOf(parameters, SEQUENCE)
    const hash = known(hmacs, oidText(childrenOf(scheme, SEQUENCE)[0]))
    if (code(hash, await derivedKey(derivation, password, null)).equals(wanted)) return
    throw new Refused(400, WRONG)
  }
  const hash = known(hashes, oidText(type))
  const times = iterations === undefined ? 1 : count(iterations)
  const length = createHash(hash).digest().length
  for (const form of oldForms(password)) {
    const key = await oldKey(hash, { id: 3, length, password: form, salt: octets(salt), iterations: times })
    if (code(hash, key).equals(wanted)) return
  }
  throw new Refused(400, WRONG)
}

function known<T>(table: Readonly<Record<string, T>>, name: string): T {
  const found = Object.hasOwn(table, name) ? table[name] : undefined
  if (found === undefined) throw new Refused(400, UNKNOWN)
  return found
}

async function pbes2(parameters: Element | undefined, encrypted: Buffer, password: string): Promise<Buffer> {
  const [derivation, scheme] = childrenOf(parameters, SEQUENCE)
  const [type, iv] = childrenOf(scheme, SEQUENCE)
  const cipher = known(ciphers, oidText(type))
  const bytes = opened(cipher, await derivedKey(derivation, password, cipher.keyLength), octets(iv), encrypted)
  if (bytes === null) throw new Refused(400, WRONG)
  return bytes
}

/** @param length null: as the parameters tell */
async function derivedKey(derivation: Element | undefined, password: string, length: number | null): Promise<Buffer> {
  const [type, parameters] = childrenOf(derivation, SEQUENCE)
  const [salt, ...rest] = childrenOf(parameters, SEQUENCE)
  const secret = Buffer.from(password)
  if (oidText(type) === SCRYPT) {
    const [N, r, p] = [count(rest[0]), count(rest[1]), count(rest[2])]
    const isCost = N > 1 && Number.isInteger(Math.log2(N)) && r > 0 && p > 0
    if (!isCost || length === null) throw new Unreadable('no cost')
    if (128 * N * r > MOST_SCRYPT_MEMORY || 128 * N * r * p > 4 * MOST_SCRYPT_MEMORY) throw tooMuch()
    return scrypt(secret, octets(salt), length, { N, r, p, maxmem: 2 * MOST_SCRYPT_MEMORY })
  }
  if (oidText(type) !== PBKDF2) throw new Refused(400, UNKNOWN)
  const iterations = count(rest[0])
  const told = rest[1]?.tag === 0x02 ? count(rest[1]) : null
  const prf = rest.find(({ tag }) => tag === SEQUENCE)
  const hash = prf === undefined ? 'sha1' : known(hmacs, oidText(tagged(children(prf)[0], OID)))
  const size = length ?? told
  if (iterations < 1 || size === null || size < 1) throw new Unreadable('no key')
  if (iterations > MOST_ITERATIONS || size > 64) throw tooMuch()
  return pbkdf2(secret, octets(salt), iterations, size, hash)
}

/** Null: the padding is wrong, most likely because the key is. */
function opened({ name }: Cipher, key: Buffer, iv: Buffer, encrypted: Buffer): Buffer | null {
  const length = name.startsWith('aes') ? 16 : 8
  if (iv.length !== length || encrypted.length === 0 || encrypted.length % length !== 0)
    throw new Unreadable('no whole blocks')
  const decipher = createDecipheriv(name, key, iv)
  try {
    return Buffer.concat([decipher.update(encrypted), decipher.final()])
  } catch {
    return null
  }
}

/** A password as RFC 7292 appendix B.1 writes it; none at all is written in two ways. */
function oldForms(password: string): Buffer[] {
  const form = Buffer.from(`${password}\0`, 'utf16le').swap16()
  return password === '' ? [form, Buffer.alloc(0)] : [form]
}

interface Derivation {
  /** What the bytes are for: 1 a key, 2 an initial vector, 3 a code. */
  readonly id: number
  readonly length: number
  readonly password: Buffer
  readonly salt: Buffer
  readonly iterations: number
}

/** RFC 7292 appendix B.2. */
async function oldKey(hash: string, { id, length, password, salt, iterations }: Derivation): Promise<Buffer> {
  if (iterations < 1) throw new Unreadable('no key')
  if (iterations > MOST_OLD_ITERATIONS || salt.length > 1024 || password.length > 4096) throw tooMuch()
  const block = hash === 'sha384' || hash === 'sha512' ? 128 : 64
  const filled = (bytes: Buffer) =>
    Buffer.alloc(bytes.length === 0 ? 0 : Math.ceil(bytes.length / block) * block, bytes)
  const input = Buffer.concat([filled(salt), filled(password)])
  const made: Buffer[] = []
  for (let size = 0; size < length; size += made.at(-1)!.length) {
    let digest = createHash(hash).update(Buffer.alloc(block, id)).update(input).digest()
    for (let i = 1; i < iterations; i++) {
      if (i % TURN === 0) await nextTurn()
      digest = createHash(hash).update(digest).digest()
    }
    made.push(digest)
    const addend = Buffer.alloc(block, digest)
    for (let start = 0; start < input.length; start += block) addOne(input.subarray(start, start + block), addend)
  }
  return Buffer.concat(made).subarray(0, length)
}

/** `number` + `addend` + 1, without what overflows. */
function addOne(number: Buffer, addend: Buffer): void {
  let carry = 1
  for (let i = number.length - 1; i >= 0; i--) {
    carry += number[i]! + addend[i]!
    number[i] = carry & 0xff
    carry >>= 8
  }
}
