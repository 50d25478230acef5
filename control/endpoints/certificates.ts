import Type, { type Static } from 'typebox'
import { type CertificateBasics, CertificateBasicsTold, CertificateTold } from '../../config/shape/certificate.ts'
import type { CertificateRecord } from '../../gateway/certificates/certificates.ts'
import type { Document } from '../../gateway/store/store.ts'
import { type Caller, orgOf } from '../caller.ts'
import {
  addCertificate,
  basics,
  listOf,
  ownCertificate,
  removeCertificate,
  usesOf
} from '../certificates/certificates.ts'
import { withExpiry } from '../certificates/expiry.ts'
import { sentFile } from '../certificates/form.ts'
import { someKeyHas, typeOf } from '../certificates/uses.ts'
import { Answer, type Endpoint, endpoint, etag, Refused } from '../endpoint.ts'
import { listPage, Paging, pageAsked, pagesOf, paging, slicePage } from '../page.ts'
import type { ControlTools } from '../tools.ts'

/** The certificate store through the management interface (specification, Certificates; semantics §1.13, §2.9). */

const strict = { additionalProperties: false } as const
const NoQuery = Type.Object({}, strict)
const NoParams = Type.Object({}, strict)
const CertId = Type.Object({ certId: Type.String({ description: 'Certificate id' }) }, strict)
const Pages = Type.Integer({ minimum: 0 })

export const uploads = ['multipart/form-data', 'application/x-pem-file', 'application/x-pkcs12']
export const uploadSummary =
  'Adds a certificate: PEM (a chain, leaf first, with or without its private key; or a public key) or PKCS#12, as ' +
  'the form file `file` with its password in the field `password`, or as the whole body'

const UNKNOWN = 'Could not retrieve certificate details. Certificate with given SHA256 fingerprint not found.'
const UNKNOWN_OR_DENIED = 'Certificate not found or access denied'

const upload = endpoint({
  method: 'POST',
  path: '/api/certs',
  door: 'management',
  summary: uploadSummary,
  params: NoParams,
  query: NoQuery,
  bodyForm: 'bytes',
  takes: uploads,
  body: Type.Unknown(),
  malformed: 'Could not read the certificate',
  answer: Type.Object({ id: Type.String(), message: Type.String(), status: Type.Literal('ok') }, strict),
  async handle(call, tools) {
    const already = (id: string) => `Could not create certificate.Certificate with ${id} ID already exists.`
    const id = await addCertificate(await sentFile(call), orgOf(call.caller, undefined), already, tools)
    return { id, message: 'Certificate added', status: 'ok' }
  }
})

const Filter = Type.Enum(['omit', 'with_pk', 'without_pk'])

const list = endpoint({
  method: 'GET',
  path: '/api/certs',
  door: 'management',
  summary: 'Ids of certificates; with mode=detailed a summary of each',
  params: NoParams,
  query: Type.Object(
    {
      ...paging,
      mode: Type.Optional(Type.String({ maxLength: 64, description: '`detailed` for summaries' })),
      filter: Type.Optional({
        ...Filter,
        description: 'With a private key, without one, or (omit, the default) all'
      })
    },
    strict
  ),
  bodyForm: 'none',
  body: Type.Unknown(),
  malformed: '',
  answer: Type.Union([
    Type.Object({ certs: Type.Array(Type.String()), pages: Pages }, strict),
    Type.Object({ cert_basics: Type.Array(CertificateBasicsTold), pages: Pages }, strict)
  ]),
  handle({ query, caller }, tools) {
    const org = orgOf(caller, undefined)
    const name = query.mode === 'detailed' ? 'cert_basics' : 'certs'
    const show = (told: CertificateBasics) => (query.mode === 'detailed' ? withExpiry(told, tools) : told.id)
    if (query.filter === undefined || query.filter === 'omit')
      return listPage<CertificateRecord>(tools, 'certificate', org, query, name, ({ body }) =>
        show(basics(body.details))
      )
    const filtered = listOf(org, query.filter === 'with_pk')
    return listPage<CertificateBasics>(tools, 'name', filtered, query, name, ({ body }) => show(body))
  }
})

const listDetails = endpoint({
  method: 'GET',
  path: '/api/certs/details',
  door: 'management',
  summary: 'Certificates with full details',
  params: NoParams,
  query: Paging,
  bodyForm: 'none',
  body: Type.Unknown(),
  malformed: '',
  answer: Type.Object({ certificates: Type.Array(CertificateTold), pages: Pages }, strict),
  handle: ({ query, caller }, tools) =>
    listPage<CertificateRecord>(tools, 'certificate', orgOf(caller, undefined), query, 'certificates', ({ body }) =>
      withExpiry(body.details, tools)
    )
})

const read = endpoint({
  method: 'GET',
  path: '/api/certs/{certId}',
  door: 'management',
  summary: 'One certificate; of a chain, its first',
  params: CertId,
  query: NoQuery,
  bodyForm: 'none',
  body: Type.Unknown(),
  malformed: '',
  answer: CertificateTold,
  async handle({ params, caller }, tools) {
    const { body, rev } = await ownCertificate(params.certId, caller, UNKNOWN, tools)
    return new Answer(200, withExpiry(body.details, tools), etag(rev))
  }
})

const remove = endpoint({
  method: 'DELETE',
  path: '/api/certs/{certId}',
  door: 'management',
  summary: 'Deletes a certificate that no API, no key and no settings use',
  params: CertId,
  query: NoQuery,
  bodyForm: 'none',
  body: Type.Unknown(),
  malformed: '',
  answer: Type.Object({ message: Type.String(), status: Type.Literal('ok') }, strict),
  async handle({ params, caller, matched }, tools) {
    const document = await ownCertificate(params.certId, caller, 'Could not delete certificate.', tools)
    await removeCertificate(document, matched, tools)
    return { message: 'removed', status: 'ok' }
  }
})

const CertificateUse = Type.Object(
  {
    api_id: Type.String(),
    name: Type.String(),
    usage_type: Type.Array(Type.Enum(['client', 'upstream', 'server'])),
    svc_api_type: Type.String()
  },
  strict
)

/** @param path with one parameter, the certificate's id */
function usedBy(path: string, parameter: string): Endpoint {
  return endpoint({
    method: 'GET',
    path,
    door: 'management',
    summary: 'APIs that use a certificate, and for what',
    params: Type.Object({ [parameter]: Type.String({ description: 'Certificate id' }) }, strict),
    query: Paging,
    bodyForm: 'none',
    body: Type.Unknown(),
    malformed: '',
    answer: Type.Object({ cert_id: Type.String(), pages: Pages, apis: Type.Array(CertificateUse) }, strict),
    async handle({ params, query, caller }, tools) {
      const { id, org } = await seen(params[parameter] as string, caller, tools)
      const uses = usesOf(id, org, tools.apis.all())
      const asked = pageAsked(query, tools.settings)
      const apis: Static<typeof CertificateUse>[] = slicePage(uses, asked).map(({ api, usage }) => ({
        api_id: api.id,
        name: api.name,
        usage_type: [...usage],
        svc_api_type: typeOf(api.document)
      }))
      return { cert_id: id, pages: pagesOf(uses.length, asked), apis }
    }
  })
}

const Ids = Type.Array(Type.String())

const dependencies = endpoint({
  method: 'GET',
  path: '/api/certs/dependencies/{certId}',
  door: 'management',
  summary: 'What depends on a certificate: APIs by their use of it, and whether a key is bound to it',
  params: CertId,
  query: NoQuery,
  bodyForm: 'none',
  body: Type.Unknown(),
  malformed: '',
  answer: Type.Object(
    {
      certID: Type.String(),
      client_cert_apis: Ids,
      client_cert_api_names: Ids,
      upstream_cert_apis: Ids,
      upstream_cert_api_names: Ids,
      key_cert: Type.Boolean({ description: 'Some key is bound to it' })
    },
    strict
  ),
  async handle({ params, caller }, tools) {
    const { id, org } = await seen(params.certId, caller, tools)
    const uses = usesOf(id, org, tools.apis.all())
    const client = uses.filter(({ usage }) => usage.includes('client'))
    const upstream = uses.filter(({ usage }) => usage.includes('upstream'))
    return {
      certID: id,
      client_cert_apis: client.map(({ api }) => api.id),
      client_cert_api_names: client.map(({ api }) => api.name),
      upstream_cert_apis: upstream.map(({ api }) => api.id),
      upstream_cert_api_names: upstream.map(({ api }) => api.name),
      key_cert: await someKeyHas(id, org, tools.store)
    }
  }
})

/** Other organisations' certificates are not told from unknown ones. @throws Refused 404 */
async function seen(id: string, caller: Caller, { store }: ControlTools): Promise<Document> {
  const document = await store.get('certificate', id)
  if (document === null || document.org !== orgOf(caller, undefined)) throw new Refused(404, UNKNOWN_OR_DENIED)
  return document
}

export const certificates: readonly Endpoint[] = [
  upload,
  list,
  listDetails,
  read,
  remove,
  usedBy('/api/certs/{certId}/apis', 'certId'),
  usedBy('/certs/{certificateId}/apis', 'certificateId'),
  dependencies
]
