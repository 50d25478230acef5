import { Refused } from '../endpoint.ts'
import { childrenOf, count, type Element, element, explicit, octets, oidText, SEQUENCE, Unreadable } from './der.ts'
import { authenticate, decrypted } from './encryption.ts'

/** What a PKCS#12 file (RFC 7292) holds, in its order: certificates as DER, private keys as PKCS#8. */
export interface Pkcs12 {
  readonly certificates: Buffer[]
  readonly privateKeys: Buffer[]
}

const DATA = '1.2.840.113549.1.7.1'
const ENCRYPTED_DATA = '1.2.840.113549.1.7.6'
const X509 = '1.2.840.113549.1.9.22.1'
const BAGS = '1.2.840.113549.1.12.10.1.'
const KEY = `${BAGS}1`
const SHROUDED_KEY = `${BAGS}2`
const CERTIFICATE = `${BAGS}3`
const NESTED = `${BAGS}6`

const MOST_SAFES = 4
const MOST_BAGS = 50

/** @throws Refused 400: the password is wrong, or the encryption not known; Unreadable */
export async function readPkcs12(bytes: Buffer, password: string): Promise<Pkcs12> {
  const [version, authSafe, macData] = childrenOf(element(bytes), SEQUENCE)
  if (count(version) !== 3) throw new Unreadable('no PKCS#12')
  const content = data(authSafe)
  if (macData !== undefined) await authenticate(macData, content, password)
  const safes = childrenOf(element(content), SEQUENCE)
  if (safes.length > MOST_SAFES) throw new Unreadable('too many parts')
  const found: Pkcs12 = { certificates: [], privateKeys: [] }
  for (const safe of safes) {
    const type = oidText(childrenOf(safe, SEQUENCE)[0])
    const inner = type === ENCRYPTED_DATA ? await openedData(safe, password) : data(safe)
    await readBags(element(inner), password, found)
  }
  return found
}

/** Content of a ContentInfo of the type data (RFC 5652 §4). */
function data(info: Element | undefined): Buffer {
  const [type, content] = childrenOf(info, SEQUENCE)
  if (oidText(type) !== DATA) throw new Unreadable('no data')
  return octets(childrenOf(content, explicit(0))[0])
}

/** EncryptedData (RFC 5652 §8). */
async function openedData(info: Element, password: string): Promise<Buffer> {
  const [, content] = childrenOf(info, SEQUENCE)
  const [, contentInfo] = childrenOf(childrenOf(content, explicit(0))[0], SEQUENCE)
  const [, algorithm, encrypted] = childrenOf(contentInfo, SEQUENCE)
  return decrypted(algorithm, octets(encrypted, 0x80), password)
}

/** Bags of other kinds (revocation lists, secrets) are passed over. */
async function readBags(contents: Element, password: string, found: Pkcs12): Promise<void> {
  for (const bag of childrenOf(contents, SEQUENCE)) {
    if (found.certificates.length + found.privateKeys.length >= MOST_BAGS) throw new Unreadable('too many parts')
    const [type, holder] = childrenOf(bag, SEQUENCE)
    const [value] = childrenOf(holder, explicit(0))
    const kind = oidText(type)
    if (value === undefined || kind === NESTED) throw new Unreadable('parts in parts')
    // Before it is decrypted: each may cost seconds.
    if ((kind === KEY || kind === SHROUDED_KEY) && found.privateKeys.length === 1)
      throw new Refused(400, 'Found multiple private keys')
    if (kind === KEY) found.privateKeys.push(value.whole)
    else if (kind === SHROUDED_KEY) {
      const [algorithm, encrypted] = childrenOf(value, SEQUENCE)
      found.privateKeys.push(await decrypted(algorithm, octets(encrypted), password))
    } else if (kind === CERTIFICATE) {
      const [certificateType, certificate] = childrenOf(value, SEQUENCE)
      if (oidText(certificateType) !== X509) throw new Unreadable('no X.509')
      found.certificates.push(octets(childrenOf(certificate, explicit(0))[0]))
    }
  }
}
