import { createHash, createPrivateKey, createPublicKey, X509Certificate } from 'node:crypto'
import { readFileSync } from 'node:fs'
import { readFile } from 'node:fs/promises'
import type { Clock, Log } from '../../config/world.ts'
import type { Changes } from '../changes/changes.ts'
import { Recent } from '../keys/recent.ts'
import { type Store, Unavailable } from '../store/store.ts'
import type { Vault } from '../vault.ts'
import { type Certificate, type CertificateRecord, type Certificates, isFile } from './certificates.ts'

export interface CertificatesGiven {
  readonly store: Pick<Store, 'get'>
  readonly changes: Pick<Changes, 'listen'>
  readonly vault: Pick<Vault, 'open'>
  readonly clock: Clock
  readonly log: Log
}

/** Certificates that were asked for and that nobody holds, remembered at most. */
const REMEMBERED = 1_000
const LARGEST_FILE = 1_048_576
/** While the store is away, held ones are asked for again so often. */
const AGAIN_MS = 1_000

/** The certificates of the store and of PEM files. */
export function openCertificates({ store, changes, vault, clock, log }: CertificatesGiven): Certificates {
  const held = new Map<string, Certificate | null>()
  const owners = new Map<string, readonly string[]>()
  /** How many owners hold each. */
  const holders = new Map<string, number>()
  /** Files that some owner may name. */
  const files = new Set<string>()
  const asked = new Recent<Certificate>(REMEMBERED)
  const listeners = new Set<() => void>()
  /** What the log was told of those that cannot be read, by id. */
  const told = new Map<string, string>()
  /** Raised by every change: what was read before it may be old. */
  let epoch = 0
  const cancels = new Set<() => void>()

  const stop = changes.listen(async list => {
    if (list !== null && !list.some(({ kind }) => kind === 'certificate')) return
    epoch++
    const ids = list === null ? null : list.filter(({ kind }) => kind === 'certificate').map(({ id }) => id)
    if (ids === null) asked.clear()
    else for (const id of ids) asked.delete(id)
    const again = [...held.keys()].filter(id => !isFile(id) && (ids === null || ids.includes(id)))
    if (again.length === 0) return
    await Promise.all(again.map(read))
    tell()
  })

  function tell(): void {
    for (const listener of listeners) listener()
  }

  /** Reads one that is held; while the store is away, what is known stays. */
  async function read(id: string): Promise<string | null> {
    const before = epoch
    try {
      const certificate = isFile(id) ? await fromFile(id) : await fromStore(id)
      // A change came meanwhile, and with it a newer reading.
      if (!isFile(id) && before !== epoch && held.get(id)) return null
      if (held.has(id)) held.set(id, certificate)
      told.delete(id)
      return null
    } catch (cause) {
      if (cause instanceof Unavailable) {
        cancels.add(clock.after(AGAIN_MS, () => held.has(id) && void read(id).then(tell)))
        return null
      }
      const { message } = cause as Error
      if (told.get(id) !== message) log.error('a certificate cannot be used', { certificate: id, cause: message })
      told.set(id, message)
      return `${id}: ${message}`
    }
  }

  async function fromStore(id: string): Promise<Certificate | null> {
    const document = await store.get<CertificateRecord>('certificate', id)
    if (document === null) return null
    const { pem, sealedKey } = document.body
    const privateKey = sealedKey === '' ? null : vault.open(sealedKey, `certificate/${id}`)
    if (sealedKey !== '' && privateKey === null)
      log.error('a private key was sealed under another encoding secret', { certificate: id })
    return certificateOf(id, document.org, pem, privateKey)
  }

  async function fromFile(path: string): Promise<Certificate> {
    return certificateOfFile(path, await readFile(path, 'latin1'))
  }

  /** An id is found in one organisation; files belong to nobody. */
  function own(certificate: Certificate | null | undefined, org: string | null): Certificate | null {
    if (certificate === null || certificate === undefined) return null
    return org === null || certificate.org === '' || certificate.org === org ? certificate : null
  }

  return {
    get(id, org) {
      if (held.has(id)) return own(held.get(id), org)
      const known = asked.get(id)
      if (known !== undefined) return own(known, org)
      if (isFile(id)) return null
      const before = epoch
      return fromStore(id).then(found => {
        if (found !== null && before === epoch) asked.set(id, found)
        return own(found, org)
      })
    },
    held: (id, org) => own(held.get(id), org),
    async hold(owner, ids, how) {
      if (ids.length === 0 && !owners.has(owner)) return
      const wanted = [...new Set(ids)].filter(id => how === 'with files' || !isFile(id))
      const before = owners.get(owner) ?? []
      if (wanted.length === 0) owners.delete(owner)
      else owners.set(owner, wanted)
      for (const id of wanted) {
        holders.set(id, (holders.get(id) ?? 0) + 1)
        if (isFile(id)) files.add(id)
      }
      for (const id of before) holders.set(id, holders.get(id)! - 1)
      const left = before.filter(id => holders.get(id) === 0)
      for (const id of left) {
        holders.delete(id)
        held.delete(id)
        told.delete(id)
        files.delete(id)
      }
      const added = wanted.filter(id => !held.has(id))
      for (const id of added) held.set(id, null)
      await Promise.all(added.map(read))
      if (left.length + added.length > 0) tell()
    },
    all: () => [...held.values()].filter(certificate => certificate !== null),
    async reload() {
      const faults = await Promise.all([...files].map(read))
      tell()
      return faults.filter(fault => fault !== null)
    },
    onChange(listener) {
      listeners.add(listener)
      return () => void listeners.delete(listener)
    },
    close() {
      stop()
      for (const cancel of cancels) cancel()
    }
  }
}

/** Why a PEM file cannot be used, in words; null: it can. */
export function faultOfFile(path: string): string | null {
  try {
    certificateOfFile(path, readFileSync(path, 'latin1'))
    return null
  } catch (cause) {
    return (cause as Error).message
  }
}

/** @throws Error */
function certificateOfFile(path: string, text: string): Certificate {
  if (text.length > LARGEST_FILE) throw new Error('is too large')
  const blocks = text.match(/-----BEGIN ([A-Z0-9 ]+)-----[\s\S]*?-----END \1-----/g) ?? []
  const isPrivate = (block: string) => /^-----BEGIN [A-Z ]*PRIVATE KEY/.test(block)
  const privateKeys = blocks.filter(isPrivate)
  if (privateKeys.length > 1) throw new Error('has several private keys')
  if (privateKeys.some(block => ENCRYPTED.test(block))) throw new Error('has a private key that is encrypted')
  const pem = blocks.filter(block => /^-----BEGIN (?:X509 )?CERTIFICATE|^-----BEGIN (?:RSA )?PUBLIC KEY/.test(block))
  if (pem.length === 0) throw new Error('holds no certificate and no public key')
  const read = certificateOf(path, '', `${pem.join('\n')}\n`, privateKeys[0] ?? null)
  if (
    read.privateKey !== null &&
    read.chain.length > 0 &&
    !read.chain[0]!.checkPrivateKey(createPrivateKey(read.privateKey))
  )
    throw new Error('has a private key that does not belong to its first certificate')
  return read
}

/** PKCS#8, and the older form (RFC 1421 §4.6.1.1). */
const ENCRYPTED = /^-----BEGIN ENCRYPTED |^Proc-Type: 4,ENCRYPTED/m

/** @throws Error when it cannot be read */
export function certificateOf(id: string, org: string, pem: string, privateKey: string | null): Certificate {
  const blocks = pem.match(/-----BEGIN (?:X509 )?CERTIFICATE-----[\s\S]*?-----END (?:X509 )?CERTIFICATE-----/g) ?? []
  const chain = blocks.map(block => new X509Certificate(block))
  const [leaf] = chain
  if (leaf === undefined) {
    const publicKey = createPublicKey(pem)
    const der = publicKey.export({ format: 'der', type: 'spki' })
    const fingerprint = createHash('sha256').update(der).digest('hex')
    return { id, org, chain, publicKey, pem, privateKey, fingerprint, startsMs: 0, expiresMs: Number.POSITIVE_INFINITY }
  }
  return {
    id,
    org,
    chain,
    publicKey: leaf.publicKey,
    pem,
    privateKey,
    fingerprint: createHash('sha256').update(leaf.raw).digest('hex'),
    startsMs: leaf.validFromDate.getTime(),
    expiresMs: leaf.validToDate.getTime()
  }
}
