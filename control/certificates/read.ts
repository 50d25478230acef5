import { createPrivateKey, createPublicKey, type KeyObject, X509Certificate } from 'node:crypto'
import { setImmediate as nextTurn } from 'node:timers/promises'
import { Refused } from '../endpoint.ts'
import { opened } from './open.ts'

/** What an upload holds: a chain, leaf first, with or without the leaf's private key; or one bare public key. */
export type Uploaded =
  | { readonly chain: readonly X509Certificate[]; readonly privateKey: KeyObject | null; readonly publicKey: null }
  | { readonly chain: null; readonly privateKey: null; readonly publicKey: KeyObject }

/** Longest upload, bytes. */
export const LARGEST_UPLOAD = 1_048_576
/** OpenSSL and asn1js take some 50 ms for the worst of this length. */
const LARGEST_CERTIFICATE = 65_536
const LONGEST_PASSWORD = 1024
const MOST_CERTIFICATES = 20
const MOST_BLOCKS = 50
const NOT_PEM = 'Failed to decode certificate. It should be PEM encoded.'
const KEY_TYPES = new Set(['rsa', 'rsa-pss', 'ec', 'ed25519', 'ed448'])

/**
 * Reads PEM or PKCS#12.
 * @param password of PKCS#12 and of encrypted private keys; '' for none
 * @throws Refused 400, 413
 */
export async function readUpload(bytes: Buffer, password: string, now: number): Promise<Uploaded> {
  if (bytes.length > LARGEST_UPLOAD) throw new Refused(413, 'Request Entity Too Large')
  if (password.length > LONGEST_PASSWORD) throw new Refused(400, 'The password is wrong')
  const isDer = bytes[0] === 0x30
  return checked(isDer ? await fromPkcs12(bytes, password) : await fromPem(bytes.toString('latin1'), password), now)
}

interface Found {
  readonly certificates: readonly X509Certificate[]
  readonly privateKeys: readonly KeyObject[]
  readonly publicKeys: readonly KeyObject[]
}

/** The blocks of a text (RFC 7468), each as it stands; what is between them is for people. @throws Refused 400 */
function pemBlocks(text: string): { readonly type: string; readonly block: string }[] {
  const pieces = text.split(/^(?=-----BEGIN )/m, MOST_BLOCKS + 2).filter(piece => piece.startsWith('-----BEGIN '))
  if (pieces.length > MOST_BLOCKS) throw new Refused(400, NOT_PEM)
  return pieces.map(piece => {
    const [block, type] = /^-----BEGIN ([A-Z0-9 ]{1,60})-----[\s\S]*?\n-----END \1-----/.exec(piece) ?? []
    if (block === undefined || type === undefined) throw new Refused(400, NOT_PEM)
    return { type, block }
  })
}

async function fromPem(text: string, password: string): Promise<Found> {
  const found = { certificates: [] as X509Certificate[], privateKeys: [] as KeyObject[], publicKeys: [] as KeyObject[] }
  for (const { type, block } of pemBlocks(text)) {
    if (type.endsWith('PRIVATE KEY')) {
      if (found.privateKeys.length === 1) throw new Refused(400, 'Found multiple private keys')
      found.privateKeys.push(await privateKey(type, block, password))
    } else if (type === 'CERTIFICATE' || type === 'X509 CERTIFICATE') {
      found.certificates.push(await certificate(derOf(block)))
      if (found.certificates.length > MOST_CERTIFICATES) throw tooMany()
    } else if (type === 'PUBLIC KEY' || type === 'RSA PUBLIC KEY') {
      found.publicKeys.push(keyOf(() => createPublicKey(block)))
      if (found.publicKeys.length > 1) throw new Refused(400, 'Found multiple public keys')
    } else if (type !== 'EC PARAMETERS') {
      // Those of an elliptic curve stand in its key as well.
      throw new Refused(400, `A PEM block of the type ${type} is neither a certificate nor a key`)
    }
  }
  return found
}

async function fromPkcs12(bytes: Buffer, password: string): Promise<Found> {
  const { certificates, privateKey } = await opened({ kind: 'pkcs12', bytes, password })
  if (certificates.length > MOST_CERTIFICATES) throw tooMany()
  const read: X509Certificate[] = []
  for (const der of certificates) read.push(await certificate(der))
  const privateKeys = privateKey === null ? [] : [keyOf(() => privateKey)]
  return { certificates: inOrder(read, privateKey), privateKeys, publicKeys: [] }
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
  if (leaf === undefined) throw new Refused(400, key === null ? NOT_PEM : 'A private key needs its certificate')
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
async function certificate(der: Uint8Array): Promise<X509Certificate> {
  if (der.length > LARGEST_CERTIFICATE) throw new Refused(400, `A certificate has at most ${LARGEST_CERTIFICATE} bytes`)
  // A chain that is made to be slow holds nobody up for longer than one of its certificates.
  await nextTurn()
  try {
    return new X509Certificate(der)
  } catch {
    throw new Refused(400, NOT_PEM)
  }
}

const derOf = (block: string) => Buffer.from(block.replace(/^-.*$/gm, ''), 'base64')

const FORMS = new Set(['PRIVATE KEY', 'RSA PRIVATE KEY', 'EC PRIVATE KEY', 'ENCRYPTED PRIVATE KEY'])

/** @throws Refused 400 */
async function privateKey(type: string, block: string, password: string): Promise<KeyObject> {
  if (!FORMS.has(type)) throw new Refused(400, `A ${type} is not supported`)
  const isLocked = type === 'ENCRYPTED PRIVATE KEY' || /^Proc-Type: *4,ENCRYPTED/im.test(block)
  if (isLocked && password === '')
    throw new Refused(400, 'The private key is encrypted: send its password in the form field password')
  if (type === 'ENCRYPTED PRIVATE KEY') {
    const { privateKey } = await opened({ kind: 'pkcs8', bytes: derOf(block), password })
    return keyOf(() => privateKey)
  }
  // Encryption headers derive the key in one round. A PRIVATE KEY has none, but with a password OpenSSL would take
  // PKCS#8 encryption there too, however much work it asks for.
  const passphrase = isLocked && type !== 'PRIVATE KEY' ? password : ''
  return keyOf(() => createPrivateKey({ key: block, format: 'pem', ...(passphrase === '' ? {} : { passphrase }) }))
}

/** @throws Refused 400 */
function keyOf(read: () => KeyObject | null): KeyObject {
  let key: KeyObject | null
  try {
    key = read()
  } catch (cause) {
    const isWrong = (cause as NodeJS.ErrnoException).code === 'ERR_OSSL_BAD_DECRYPT'
    throw new Refused(400, isWrong ? 'The password is wrong' : 'The key cannot be read')
  }
  if (key !== null && KEY_TYPES.has(key.asymmetricKeyType ?? '')) return key
  throw new Refused(400, 'A key is RSA, of an elliptic curve, Ed25519 or Ed448')
}
