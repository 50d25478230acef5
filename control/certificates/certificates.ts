import { createHash, type X509Certificate } from 'node:crypto'
import type { Certificate, CertificateBasics } from '../../config/shape/certificate.ts'
import type { Api } from '../../gateway/api.ts'
import type { CertificateRecord } from '../../gateway/certificates/certificates.ts'
import { certificatesOfSettings } from '../../gateway/certificates/named.ts'
import { noticeId } from '../../gateway/certificates/notices.ts'
import { Conflict, type Document, type Revision, type Store, type Write } from '../../gateway/store/store.ts'
import { type Caller, owns } from '../caller.ts'
import { Refused } from '../endpoint.ts'
import { nameId } from '../ids.ts'
import type { ControlTools } from '../tools.ts'
import { details, fingerprint, publicKeyDetails, Unreadable } from './details.ts'
import type { Sent } from './form.ts'
import { readUpload, type Uploaded } from './read.ts'
import { someKeyHas, type Usage, usageOf } from './uses.ts'

/**
 * Where certificates are listed once more, by whether they have a private key: documents of kind `name` whose body is
 * `CertificateBasics`, under this in the place of the organisation. So a page of them costs no look at the others.
 */
export function listOf(org: string, hasPrivate: boolean): string {
  return nameId(hasPrivate ? 'certificates with key' : 'certificates without key', org, '')
}

/** Keeps a certificate; answers its id. @throws Refused 400, 409 (`already`), 413 */
export async function addCertificate(
  { bytes, password }: Sent,
  org: string,
  already: (id: string) => string,
  { store, changes, vault, clock }: ControlTools
): Promise<string> {
  const uploaded = await readUpload(bytes, password, clock.now())
  const told = toldOf(uploaded, org)
  const { id } = told
  const body: CertificateRecord = {
    details: told,
    pem: uploaded.chain === null ? pemOf(uploaded.publicKey) : uploaded.chain.map(String).join(''),
    sealedKey:
      uploaded.privateKey === null
        ? ''
        : vault.seal(String(uploaded.privateKey.export({ format: 'pem', type: 'pkcs8' })), `certificate/${id}`)
  }
  const listed: Write = { kind: 'name', id: listedId(id), org: listOf(org, told.has_private), body: basics(told) }
  try {
    const sequence = await store.commit([{ kind: 'certificate', id, org, body, expect: 0 }, listed])
    await changes.publish([{ sequence, kind: 'certificate', id, deleted: false }])
  } catch (cause) {
    if (cause instanceof Conflict) throw new Refused(409, already(id))
    throw cause
  }
  return id
}

const listedId = (id: string) => nameId('certificate', '', id)

function pemOf(publicKey: NonNullable<Uploaded['publicKey']>): string {
  return String(publicKey.export({ format: 'pem', type: 'spki' }))
}

/** @throws Refused 400 */
function toldOf({ chain, privateKey, publicKey }: Uploaded, org: string): Certificate {
  if (chain === null) {
    const hash = createHash('sha256')
      .update(publicKey.export({ format: 'der', type: 'spki' }))
      .digest('hex')
    return publicKeyDetails(org + hash, hash)
  }
  const leaf = chain[0] as X509Certificate
  try {
    return details(leaf, org + fingerprint(leaf), privateKey !== null)
  } catch (cause) {
    if (!(cause instanceof Unreadable)) throw cause
    throw new Refused(400, 'Failed to decode certificate. Its names or times cannot be read.')
  }
}

/** @throws Refused 404 (`unknown`), 400 when it is another organisation's */
export async function ownCertificate(
  id: string,
  caller: Caller,
  unknown: string,
  { store }: { readonly store: Pick<Store, 'get'> }
): Promise<Document<CertificateRecord>> {
  const document = await store.get<CertificateRecord>('certificate', id)
  if (document === null) throw new Refused(404, unknown)
  if (!owns(caller, document.org)) throw new Refused(400, 'Attempted access to non-owned certificate.')
  return document
}

/** @throws Refused 409 while an API or a key uses it, or the settings of this process name it */
export async function removeCertificate(
  { id, org, rev, body }: Document<CertificateRecord>,
  matched: (rev: Revision) => Revision,
  { store, changes, apis, settings }: ControlTools
): Promise<void> {
  const users = usesOf(id, org, apis.all())
  if (users.length > 0) {
    const names = users.slice(0, 10).map(({ api }) => api.name || api.id)
    throw new Refused(409, `The certificate is used by ${names.join(', ')}${users.length > 10 ? ', …' : ''}`)
  }
  if (certificatesOfSettings(settings.gateway).includes(id))
    throw new Refused(409, 'The certificate is used by the settings of the gateway')
  if (await someKeyHas(id, org, store)) throw new Refused(409, 'The certificate is used by a key')
  try {
    const sequence = await store.commit([
      { kind: 'certificate', id, body: null, expect: matched(rev) },
      { kind: 'name', id: listedId(id), body: null },
      { kind: 'notice', id: noticeId(org, body.details.fingerprint), body: null }
    ])
    await changes.publish([{ sequence, kind: 'certificate', id, deleted: true }])
  } catch (cause) {
    if (cause instanceof Conflict) throw new Refused(404, 'The certificate was deleted meanwhile')
    throw cause
  }
}

/** APIs of an organisation that use a certificate, in order of their ids. */
export function usesOf(
  id: string,
  org: string,
  apis: readonly Api[]
): { readonly api: Api; readonly usage: readonly Usage[] }[] {
  return apis
    .filter(({ orgId }) => orgId === org)
    .map(api => ({ api, usage: usageOf(id, api.document) }))
    .filter(({ usage }) => usage.length > 0)
}

/** What detailed lists tell of a certificate. */
export function basics(told: Certificate): CertificateBasics {
  const { id, issuer, subject, dns_names, has_private, is_ca, not_before, not_after } = told
  return {
    id,
    issuer_cn: issuer.CommonName,
    subject_cn: subject.CommonName,
    dns_names,
    has_private,
    is_ca,
    not_before,
    not_after
  }
}
