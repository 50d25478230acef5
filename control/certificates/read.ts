import { createPrivateKey, createPublicKey, type KeyObject, X509Certificate } from 'node:crypto'
import { Refused } from '../endpoint.ts'
import { childrenOf, element, octets, SEQUENCE, Unreadable } from './der.ts'
import { decrypted, headersDecrypted } from './encryption.ts'
import { pemBlocks } from './pem.ts'
import { readPkcs12 } from './pkcs12.ts'

/** What an upload holds: a chain, leaf first, with or without the leaf's private key; or one bare public key. */
export type Uploaded =
  | { readonly chain: readonly X509Certificate[]; readonly privateKey: KeyObject | null; readonly publicKey: null }
  | { readonly chain: null; readonly privateKey: null; readonly publicKey: KeyObject }

/** Longest upload, bytes. */
export const LARGEST_UPLOAD = 1_048_576
const LARGEST_CERTIFICATE = 262_144
const MOST_CERTIFICATES = 20
const NOT_PEM = 'Failed to decode certificate. It should be PEM encoded.'
const KEY_TYPES = new Set(['rsa', 'rsa-pss', 'ec', 'ed25519', 'ed448'])

/**
 * Reads PEM or PKCS#12.
 * @param password of PKCS#12 and of encrypted private keys; '' for none
 * @throws Refused 400, 413
 */
export async function readUpload(bytes: Buffer, password: string, now: number): Promise<Uploaded> {
  if (bytes.length > LARGEST_UPLOAD) throw new Refused(413, 'Request Entity Too Large')
  const isDer = bytes[0] === 0x30
  try {
    const found = isDer ? await fromPkcs12(bytes, password) : await fromPem(bytes.toString('latin1'), password)
    return checked(found, now)
  } catch (cause) {
    if (cause instanceof Unreadable) throw new Refused(400, NOT_PEM)
    throw cause
  }
}

interface Found {
  readonly certificates: readonly X509Certificate[]
  readonly privateKeys: readonly KeyObject[]
  readonly publicKeys: readonly KeyObject[]
}

async function fromPem(text: string, password: string): Promise<Found> {
  const found = { certificates: [] as X509Certificate[], privateKeys: [] as KeyObject[], publicKeys: [] as KeyObject[] }
  for (const { type, headers, bytes } of pemBlocks(text)) {
    if (type.endsWith('PRIVATE KEY')) {
      if (found.privateKeys.length === 1) throw new Refused(400, 'Found multiple private keys')
      found.privateKeys.push(await privateKey(type, headers, bytes, password))
    } else if (type === 'CERTIFICATE' || type === 'X509 CERTIFICATE') {
      found.certificates.push(certificate(bytes))
      if (found.certificates.length > MOST_CERTIFICATES) throw tooMany()
    } else if (type === 'PUBLIC KEY' || type === 'RSA PUBLIC KEY') {
      found.publicKeys.push(publicKey(type, bytes))
      if (found.publicKeys.length > 1) throw new Refused(400, 'Found multiple public keys')
    } else if (type !== 'EC PARAMETERS') {
      // Those of an elliptic curve stand in its key as well.
      throw new Refused(400, `A PEM block of the type ${type} is neither a certificate nor a key`)
    }
  }
  if (found.certificates.length + found.privateKeys.length + found.publicKeys.length === 0)
    throw new Refused(400, NOT_PEM)
  return found
}

async function fromPkcs12(bytes: Buffer, password: string): Promise<Found> {
  const { certificates, privateKeys } = await readPkcs12(bytes, password)
  if (certificates.length > MOST_CERTIFICATES) throw tooMany()
  const read = certificates.map(certificate)
  const keys = privateKeys.map(der => keyOf(() => createPrivateKey({ key: der, format: 'der', type: 'pkcs8' })))
  return { certificates: inOrder(read, keys[0] ?? null), privateKeys: keys, publicKeys: [] }
}

const tooMany = () => new Refused(400, `A chain has at most ${MOST_CERTIFICATES} certificates`)

/** @throws Refused 400 */
function checked({ certificates, privateKeys, publicKeys }: Found, now: number): Uploaded {
  const key = privateKeys[0] ?? null
  const bare = publicKeys[0]
  if (bare !== undefined) {
    if (certificates.length > 0 || key !== null)
      throw new Refused(400, 'A public key is uploaded without certificates and private keys')
    return { chain: null, privateKey: null, publicKey: bare }
  }
  const leaf = certificates[0]
  if (leaf === undefined) throw new Refused(400, 'A private key needs its certificate')
  if (leaf.validToDate.getTime() < now) throw new Refused(400, 'certificate is expired')
  if (key !== null && !leaf.checkPrivateKey(key))
    throw new Refused(400, 'The private key does not belong to the first certificate, which must be the leaf')
  for (const [i, issuer] of certificates.slice(1).entries())
    if (!certificates[i]!.checkIssued(issuer))
      throw new Refused(
        400,
        `The certificates are no chain, leaf first: number ${i + 2} has not issued number ${i + 1}`
      )
  return { chain: certificates, privateKey: key, publicKey: null }
}

/** PKCS#12 knows no order: the leaf is the key's, else one that issued none; each is followed by its issuer. */
function inOrder(certificates: readonly X509Certificate[], key: KeyObject | null): readonly X509Certificate[] {
  const issuerOf = (one: X509Certificate) => certificates.find(other => other !== one && one.checkIssued(other))
  const issuers = new Set(certificates.map(issuerOf))
  const leaf = certificates.find(one => (key === null ? !issuers.has(one) : one.checkPrivateKey(key)))
  if (leaf === undefined) return certificates
  const chain = new Set([leaf])
  for (let next = issuerOf(leaf); next !== undefined && !chain.has(next); next = issuerOf(next)) chain.add(next)
  return [...chain, ...certificates.filter(one => !chain.has(one))]
}

/** @throws Refused 400 */
function certificate(der: Buffer): X509Certificate {
  if (der.length > LARGEST_CERTIFICATE) throw new Refused(400, `A certificate has at most ${LARGEST_CERTIFICATE} bytes`)
  try {
    return new X509Certificate(der)
  } catch {
    throw new Refused(400, NOT_PEM)
  }
}

function publicKey(type: string, der: Buffer): KeyObject {
  return keyOf(() => createPublicKey({ key: der, format: 'der', type: type === 'PUBLIC KEY' ? 'spki' : 'pkcs1' }))
}

const FORMS = { 'PRIVATE KEY': 'pkcs8', 'RSA PRIVATE KEY': 'pkcs1', 'EC PRIVATE KEY': 'sec1' } as const

/** @throws Refused 400; Unreadable */
async function privateKey(type: string, headers: string, der: Buffer, password: string): Promise<KeyObject> {
  const isEncrypted = type === 'ENCRYPTED PRIVATE KEY' || /^Proc-Type: *4,ENCRYPTED/im.test(headers)
  if (isEncrypted && password === '')
    throw new Refused(400, 'The private key is encrypted: send its password in the form field password')
  if (type === 'ENCRYPTED PRIVATE KEY') {
    const [algorithm, encrypted] = childrenOf(element(der), SEQUENCE)
    const key = await decrypted(algorithm, octets(encrypted), password)
    return keyOf(() => createPrivateKey({ key, format: 'der', type: 'pkcs8' }))
  }
  if (!Object.hasOwn(FORMS, type)) throw new Refused(400, `A ${type} is not supported`)
  const key = isEncrypted ? headersDecrypted(headers, der, password) : der
  return keyOf(() => createPrivateKey({ key, format: 'der', type: FORMS[type as keyof typeof FORMS] }))
}

/** @throws Refused 400 */
function keyOf(read: () => KeyObject): KeyObject {
  let key: KeyObject
  try {
    key = read()
  } catch {
    throw new Refused(400, 'The key cannot be read')
  }
  if (KEY_TYPES.has(key.asymmetricKeyType ?? '')) return key
  throw new Refused(400, 'A key is RSA, of an elliptic curve, Ed25519 or Ed448')
}
