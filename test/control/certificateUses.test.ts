import t from 'tap'
import { typeOf, usageOf } from '../../control/certificates/uses.ts'
import { certificates } from '../../control/endpoints/certificates.ts'
import type { Api } from '../../gateway/api.ts'
import { certificate, hashOf } from '../helpers/certificates.ts'
import { api, gateway } from '../helpers/gateway.ts'

const uses = {
  client: { server: { clientCertificates: { enabled: true, allowlist: ['other', 'id'] } } },
  upstream: {
    upstream: { mutualTLS: { enabled: true, domainToCertificateMapping: [null, { domain: '*', certificate: 'id' }] } }
  },
  server: { server: { customDomain: { enabled: true, name: 'a.example', certificates: ['id'] } } }
}

t.test('what an API does with a certificate is read from its document', async t => {
  for (const [usage, extension] of Object.entries(uses)) {
    t.same(usageOf('id', api('a', '', extension)), [usage])
    t.same(usageOf('i', api('a', '', extension)), [])
  }
  const all = { upstream: uses.upstream.upstream, server: { ...uses.client.server, ...uses.server.server } }
  t.same(usageOf('id', api('a', '', all)), ['client', 'upstream', 'server'])
  for (const strange of [
    null,
    'id',
    [],
    {},
    { 'x-svc-api-gateway': ['id'] },
    api('a', '', { server: { clientCertificates: 'id', customDomain: { certificates: 'id' } } }),
    api('a', '', { upstream: { mutualTLS: { domainToCertificateMapping: { certificate: 'id' } } } })
  ])
    t.same(usageOf('id', strange), [])
  t.equal(typeOf(api('a', '')), 'Svc OAS')
  t.equal(typeOf({ ...api('a', ''), 'x-svc-streaming': {} }), 'Svc Streams')
})

t.test('a pin of an upstream is a use of the key', async t => {
  const mapping = (...publicKeys: unknown[]) => ({
    upstream: { certificatePinning: { enabled: true, domainToPublicKeysMapping: [{ domain: '*', publicKeys }] } }
  })
  t.same(usageOf('id', api('a', '', mapping('sha256/x', 'id'))), ['upstream'])
  t.same(usageOf('id', api('a', '', mapping('sha256/x'))), [])
  t.same(usageOf('id', api('a', '', { upstream: { certificatePinning: { domainToPublicKeysMapping: 'id' } } })), [])
})

t.test('what the settings name is not deleted', async t => {
  const made = certificate()
  const id = `default${hashOf(made)}`
  const gw = await gateway(t, { settings: { gateway: { security: { pinned_public_keys: { '*': id } } } } })
  t.equal((await gw.api('POST', '/api/certs', made.pem)).body.id, id)
  const { status, body } = await gw.api('DELETE', `/api/certs/${id}`)
  t.match([status, body], [409, { Message: 'The certificate is used by the settings of the gateway' }])
})

t.test('what a key uses is not deleted, on either interface', async t => {
  const gw = await gateway(t)
  const { body } = await gw.api('POST', '/api/certs', certificate().pem)
  const id: string = body.id
  const key = (org: string, members: object) => ({
    ...({ kind: 'key', id: 'a', org } as const),
    body: { name: null, generated: true, key: members }
  })
  for (const members of [
    { certificate: id },
    { rsa_certificate_id: id },
    { mtls_static_certificate_bindings: ['other', id] }
  ]) {
    await gw.store.commit([key('default', members)])
    t.match(await gw.api('DELETE', `/api/certs/${id}`), {
      status: 409,
      body: { Message: 'The certificate is used by a key' }
    })
    t.match(await gw.svc('DELETE', `/svc/certs/${id}`), {
      status: 409,
      body: { message: 'The certificate is used by a key' }
    })
  }
  await gw.store.commit([key('other', { certificate: id })])
  t.equal((await gw.svc('DELETE', `/svc/certs/${id}`)).status, 200)
})

t.test('APIs of a certificate are listed, paged, and keep it from being deleted', async t => {
  const gw = await gateway(t)
  const { body } = await gw.api('POST', '/api/certs', certificate().pem)
  const id: string = body.id
  const none = await gw.api('GET', `/certs/${id}/apis`)
  t.same(none.body, { cert_id: id, pages: 0, apis: [] })
  t.same((await gw.api('GET', `/api/certs/${id}/apis`)).body, none.body)
  t.same((await gw.api('GET', `/api/certs/dependencies/${id}`)).body, {
    certID: id,
    client_cert_apis: [],
    client_cert_api_names: [],
    upstream_cert_apis: [],
    upstream_cert_api_names: [],
    key_cert: false
  })
  // Such keys cannot be made yet either.
  const key = { name: null, generated: true, key: { mtls_static_certificate_bindings: [id] } }
  await gw.store.commit([
    { kind: 'key', id: 'a', org: 'default', body: { ...key, key: {} } },
    { kind: 'key', id: 'b', org: 'default', body: key }
  ])
  t.equal((await gw.api('GET', `/api/certs/dependencies/${id}`)).body.key_cert, true)

  // Documents with these members cannot be saved yet, so the handlers are given them.
  const made = Array.from({ length: 3 }, (_, i) => ({
    id: `a${i}`,
    name: `A${i}`,
    orgId: i === 2 ? 'other' : 'default',
    document: JSON.parse(JSON.stringify(api(`a${i}`, '', uses.client)).replaceAll('"id"]', `"${id}"]`))
  })) as unknown as Api[]
  const tools = { store: gw.store, settings: { management: { page_size: 10 } }, apis: { all: () => made } }
  const call = async (method: string, path: string, query = {}) =>
    certificates
      .find(row => row.method === method && row.path === path)!
      .handle(
        {
          params: { certId: id, certificateId: id },
          query,
          caller: { org: 'default' },
          matched: (rev: number) => rev
        } as never,
        tools as never
      )
  const told = (name: string) => ({ api_id: name.toLowerCase(), name, usage_type: ['client'], svc_api_type: 'Svc OAS' })
  t.same(await call('GET', '/certs/{certificateId}/apis'), { cert_id: id, pages: 1, apis: [told('A0'), told('A1')] })
  t.same(await call('GET', '/api/certs/{certId}/apis', { p: '2', page_size: '1' }), {
    cert_id: id,
    pages: 2,
    apis: [told('A1')]
  })
  t.match(await call('GET', '/api/certs/dependencies/{certId}'), {
    client_cert_apis: ['a0', 'a1'],
    client_cert_api_names: ['A0', 'A1'],
    upstream_cert_apis: []
  })
  await t.rejects(call('DELETE', '/api/certs/{certId}'), { status: 409, message: 'The certificate is used by A0, A1' })
  t.equal((await gw.api('GET', `/api/certs/${id}`)).status, 200)
})
