import Type from 'typebox'
import { Certificate, CertificateBasics } from '../../config/shape/certificate.ts'
import type { CertificateRecord } from '../../gateway/certificates/certificates.ts'
import { addCertificate, basics, ownCertificate, removeCertificate } from '../certificates/certificates.ts'
import { sentFile } from '../certificates/form.ts'
import { Answer, type Endpoint, endpoint, etag, Refused } from '../endpoint.ts'
import { uploadSummary, uploads } from './certificates.ts'

/** The certificate store through the gateway interface (semantics §2.9). */

const strict = { additionalProperties: false } as const
const CertId = Type.Object({ certID: Type.String({ description: 'Certificate id' }) }, strict)
const orgId = Type.Optional(Type.String({ maxLength: 256, description: 'Organisation; absent: `default` on writing' }))
const OrgQuery = Type.Object({ org_id: orgId }, strict)
const UNKNOWN = 'Certificate with given SHA256 fingerprint not found'

const upload = endpoint({
  method: 'POST',
  path: '/svc/certs',
  door: 'gateway',
  summary: uploadSummary,
  params: Type.Object({}, strict),
  query: OrgQuery,
  bodyForm: 'bytes',
  takes: uploads,
  body: Type.Unknown(),
  malformed: 'Could not read the certificate',
  answer: Type.Object({ id: Type.String(), status: Type.Literal('ok'), message: Type.String() }, strict),
  async handle(call, tools) {
    const already = (id: string) => `Certificate with ${id} already exists.`
    const id = await addCertificate(await sentFile(call), call.query.org_id || 'default', already, tools)
    return { id, status: 'ok', message: 'Certificate added' }
  }
})

const list = endpoint({
  method: 'GET',
  path: '/svc/certs',
  door: 'gateway',
  summary: 'Ids of all certificates, or of an organisation; with mode=detailed a summary of each',
  params: Type.Object({}, strict),
  query: Type.Object(
    { org_id: orgId, mode: Type.Optional(Type.String({ maxLength: 64, description: '`detailed` for summaries' })) },
    strict
  ),
  bodyForm: 'none',
  body: Type.Unknown(),
  malformed: '',
  answer: Type.Object({ certs: Type.Array(Type.Union([Type.String(), CertificateBasics])) }, strict),
  async handle({ query }, { store }) {
    const detailed = query.mode === 'detailed'
    const which = { ...(query.org_id ? { org: query.org_id } : {}), idsOnly: !detailed }
    const certs: unknown[] = []
    for await (const documents of store.each<CertificateRecord>('certificate', which))
      for (const { id, body } of documents) certs.push(detailed ? basics(body.details) : id)
    return { certs }
  }
})

/** Ids of one call at most; an address has no room for many more. */
const MOST_IDS = 100

const read = endpoint({
  method: 'GET',
  path: '/svc/certs/{certID}',
  door: 'gateway',
  summary: 'One certificate; several ids, parted by commas: a list, null for an unknown one',
  params: CertId,
  query: OrgQuery,
  bodyForm: 'none',
  body: Type.Unknown(),
  malformed: '',
  answer: Type.Union([Certificate, Type.Array(Type.Union([Certificate, Type.Null()]))]),
  async handle({ params, query }, { store }) {
    const ids = params.certID.split(',')
    if (ids.length > MOST_IDS) throw new Refused(400, `At most ${MOST_IDS} ids in one call`)
    const found = await Promise.all(ids.map(id => store.get<CertificateRecord>('certificate', id)))
    const told = found.map(document => (query.org_id && document?.org !== query.org_id ? null : document))
    if (ids.length > 1) return told.map(document => document?.body.details ?? null)
    const [only] = told
    if (!only) throw new Refused(404, UNKNOWN)
    return new Answer(200, only.body.details, etag(only.rev))
  }
})

const remove = endpoint({
  method: 'DELETE',
  path: '/svc/certs/{certID}',
  door: 'gateway',
  summary: 'Deletes a certificate that no API, no key and no settings use',
  params: CertId,
  query: OrgQuery,
  bodyForm: 'none',
  body: Type.Unknown(),
  malformed: '',
  answer: Type.Object({ status: Type.Literal('ok'), message: Type.String() }, strict),
  async handle({ params, query, caller, matched }, tools) {
    const document = await ownCertificate(params.certID, caller, UNKNOWN, tools)
    if (query.org_id && document.org !== query.org_id) throw new Refused(404, UNKNOWN)
    await removeCertificate(document, matched, tools)
    return { status: 'ok', message: 'removed' }
  }
})

export const svcCertificates: readonly Endpoint[] = [upload, list, read, remove]
