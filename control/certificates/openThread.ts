import { createPrivateKey, type KeyObject, type PrivateKeyInput } from 'node:crypto'
import { parentPort } from 'node:worker_threads'
import { Integer, OctetString, Sequence } from 'asn1js'
import {
  type AlgorithmIdentifier,
  CertBag,
  ContentInfo,
  EncryptedData,
  getCrypto,
  PBES2Params,
  PFX,
  PKCS8ShroudedKeyBag,
  PrivateKeyInfo,
  SafeContents
} from 'pkijs'

/** What a password opens: a PKCS#12 file (RFC 7292), or an EncryptedPrivateKeyInfo (RFC 5958 §3), as DER. */
export interface Locked {
  readonly kind: 'pkcs12' | 'pkcs8'
  readonly bytes: Uint8Array
  readonly password: string
}

/** Certificates as DER, in their order. */
export interface Opened {
  readonly certificates: readonly Uint8Array[]
  readonly privateKey: KeyObject | null
}

export type Answer = Opened | { readonly refused: string }

/** Told to whoever sent the file. */
class Closed extends Error {}

/** Whoever writes a file says how much work deriving its key is; this many take a second or two of one core. */
const MOST_ROUNDS = 1_000_000
const MOST_PARTS = 4

const WRONG = 'The password is wrong'
const TOO_MUCH = `The rounds that derive the key of the file are not from 1 to ${MOST_ROUNDS}`
const UNKNOWN =
  'The file is damaged, or encrypted in a way that is not supported: write it anew with AES, ' +
  'e.g. openssl pkcs12 -export without -legacy'
const UNREADABLE = 'Failed to decode certificate. It should be PEM encoded.'

const PBES2 = '1.2.840.113549.1.5.13'
const PBKDF2 = '1.2.840.113549.1.5.12'
const SCRYPT = '1.3.6.1.4.1.11591.4.11'

/** What derives the key: in PBES2 its first parameter, in older ways the whole (RFC 8018 §6). */
function derivationOf(algorithm: AlgorithmIdentifier): AlgorithmIdentifier {
  if (algorithm.algorithmId !== PBES2) return algorithm
  return new PBES2Params({ schema: algorithm.algorithmParams }).keyDerivationFunc
}

/** Its numbers begin with the rounds; those of scrypt (RFC 7914 §7) are factors. asn1js answers 0 for longer than 3 bytes. */
function checkWork({ algorithmId, algorithmParams }: AlgorithmIdentifier): void {
  if (!(algorithmParams instanceof Sequence)) throw new Closed(UNKNOWN)
  const numbers = algorithmParams.valueBlock.value
    .filter(value => value instanceof Integer)
    .map(({ valueBlock }) => valueBlock.valueDec)
  const work = algorithmId === SCRYPT ? numbers.reduce((product, n) => product * n, 1) : (numbers[0] ?? 0)
  if (numbers.some(n => n < 1) || work < 1 || work > MOST_ROUNDS) throw new Closed(TOO_MUCH)
}

/** OpenSSL knows more ways than pkijs; it is given what was looked at, not the bytes that came. */
function openKey(bag: PKCS8ShroudedKeyBag, passphrase: string): KeyObject {
  checkWork(derivationOf(bag.encryptionAlgorithm))
  return keyOf({ key: Buffer.from(bag.toSchema().toBER()), format: 'der', type: 'pkcs8', passphrase })
}

function keyOf(input: PrivateKeyInput): KeyObject {
  try {
    return createPrivateKey(input)
  } catch (cause) {
    throw new Closed((cause as NodeJS.ErrnoException).code === 'ERR_OSSL_BAD_DECRYPT' ? WRONG : UNKNOWN)
  }
}

async function openPkcs12(bytes: Uint8Array, text: string): Promise<Opened> {
  const pfx = PFX.fromBER(bytes as Uint8Array<ArrayBuffer>)
  const password = new TextEncoder().encode(text).buffer
  if (pfx.authSafe.contentType !== ContentInfo.DATA) throw new Closed(UNKNOWN)
  await pfx.parseInternalValues({ password, checkIntegrity: false })
  const parts = pfx.parsedValue!.authenticatedSafe!.safeContents
  if (parts.length > MOST_PARTS) throw new Closed(`A file has at most ${MOST_PARTS} parts`)
  if (pfx.macData !== undefined) {
    if (!('name' in getCrypto(true).getAlgorithmByOID(pfx.macData.mac.digestAlgorithm.algorithmId)))
      throw new Closed(UNKNOWN)
    await pfx.parseInternalValues({ password }).catch(() => {
      throw new Closed(WRONG)
    })
  }
  const bags: unknown[] = []
  for (const part of parts) bags.push(...(await openPart(part, password)).safeBags.map(({ bagValue }) => bagValue))
  if (bags.some(bag => bag instanceof SafeContents)) throw new Closed('A file in a file is not supported')
  const locked = bags.filter(bag => bag instanceof PKCS8ShroudedKeyBag)
  const open = bags.filter(bag => bag instanceof PrivateKeyInfo)
  // Before one is opened: each may cost seconds.
  if (locked.length + open.length > 1) throw new Closed('Found multiple private keys')
  const keys = [
    ...locked.map(bag => openKey(bag, text)),
    ...open.map(bag => keyOf({ key: Buffer.from(bag.toSchema().toBER()), format: 'der', type: 'pkcs8' }))
  ]
  const certificates = bags.filter(bag => bag instanceof CertBag).map(({ certValue }) => derOf(certValue))
  return { certificates, privateKey: keys[0] ?? null }
}

function derOf(value: CertBag['certValue']): Uint8Array {
  if (!(value instanceof OctetString)) throw new Closed(UNKNOWN)
  return new Uint8Array(value.getValue())
}

async function openPart({ contentType, content }: ContentInfo, password: ArrayBuffer): Promise<SafeContents> {
  if (contentType === ContentInfo.DATA) return SafeContents.fromBER((content as OctetString).getValue())
  if (contentType !== ContentInfo.ENCRYPTED_DATA) throw new Closed(UNKNOWN)
  const encrypted = new EncryptedData({ schema: content })
  const derivation = derivationOf(encrypted.encryptedContentInfo.contentEncryptionAlgorithm)
  if (derivation.algorithmId !== PBKDF2) throw new Closed(UNKNOWN)
  checkWork(derivation)
  const bytes = await encrypted.decrypt({ password }).catch((cause: unknown) => {
    throw new Closed(cause instanceof DOMException && cause.name === 'OperationError' ? WRONG : UNKNOWN)
  })
  return SafeContents.fromBER(bytes)
}

async function open({ kind, bytes, password }: Locked): Promise<Opened> {
  if (kind === 'pkcs12') return openPkcs12(bytes, password)
  const key = PKCS8ShroudedKeyBag.fromBER(bytes as Uint8Array<ArrayBuffer>)
  return { certificates: [], privateKey: openKey(key, password) }
}

parentPort!.on('message', async (locked: Locked) => {
  // Whatever else the packages throw is the file's fault.
  const answer = await open(locked).catch(cause => ({ refused: cause instanceof Closed ? cause.message : UNREADABLE }))
  parentPort!.postMessage(answer satisfies Answer)
})
