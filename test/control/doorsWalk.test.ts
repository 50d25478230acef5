import t from 'tap'
import { endpoints } from '../../control/endpoints/index.ts'
import { CN, certificate } from '../helpers/certificates.ts'
import { api, gateway, rights, type TestGateway, type Told } from '../helpers/gateway.ts'

/** Walks the endpoint table as those who may not: a row that is added is tried by itself. */

t.setTimeout(180_000)

const walked = endpoints.filter(({ door }) => door === 'management' || door === 'portal')
/** Stands in everything that the organisation `default` has; nobody else may ever read it. */
const MARK = 'only-for-default'
const streaming = {
  gateway: { streaming: { enabled: true } },
  management: { streaming: { enabled: true }, failed_credentials_per_minute: 0 }
}

const filled = (path: string, given: Record<string, string> = {}) =>
  path.replaceAll(/\{(\w+)\}/g, (_, name: string) => encodeURIComponent(given[name] ?? 'x1234'))

/** Whether an answer says no as the surface does. */
function refuses({ status, body }: Told, expected: number, path: string): boolean {
  if (status !== expected) return false
  return path.startsWith('/portal-api/') ? Array.isArray(body.errors) : body.Status === 'Error' && body.Meta === null
}

t.test('no endpoint opens without a credential, to an inactive user or to one without its permission', async t => {
  const gw = await gateway(t, { settings: streaming })
  const asleep = await gw.user({ org_id: 'default', active: false })
  const nothing = await gw.user({ org_id: 'default', user_permissions: {} })
  for (const { method, path, anyUser, bodyForm } of walked) {
    const body = bodyForm === 'none' ? undefined : '{'
    const call = (key: string | null) => gw.api(method, filled(path), body, { key })
    for (const [who, key, expected] of [
      ['nobody', null, 401],
      ['wrong', 'no-such-access-key', 401],
      ['inactive', asleep, 403],
      ['without permissions', nothing, 403]
    ] as const) {
      if (anyUser && key === nothing) continue
      const answer = await call(key)
      if (!refuses(answer, expected, path))
        t.fail(`${who}: ${method} ${path} ${JSON.stringify([answer.status, answer.body])}`)
    }
  }
  for (const { method, path, door } of endpoints) {
    if (door !== 'admin') continue
    for (const key of [null, nothing, asleep]) {
      const { status } = await gw.api(method, filled(path), undefined, { key })
      if (status !== 401) t.fail(`${method} ${path}: ${status}`)
    }
  }
})

t.test('every endpoint that writes refuses whoever may only read', async t => {
  const gw = await gateway(t, { settings: streaming })
  const everything = Object.fromEntries(
    'apis policies keys users user_groups certs hooks api_assets audit_logs portal system log'
      .split(' ')
      .map(name => [name, 'read' as const])
  )
  const key = await gw.user({ org_id: 'default', user_permissions: everything })
  for (const { method, path, door, anyUser, intent, bodyForm } of walked) {
    if (anyUser || (door !== 'portal' && (intent ?? (method === 'GET' ? 'read' : 'write')) === 'read')) continue
    const answer = await gw.api(method, filled(path), bodyForm === 'none' ? undefined : '{', { key })
    if (!refuses(answer, 403, path)) t.fail(`${method} ${path} ${answer.status}`)
  }
})

/** The organisation `default` with one document of each kind: the parameters that lead to them, by the beginning of the path. */
async function furnished(gw: TestGateway): Promise<readonly (readonly [string, Record<string, string>])[]> {
  const made = async (path: string, body: unknown, headers = {}): Promise<any> => {
    const answer = await gw.api('POST', path, body, { headers })
    if (answer.status >= 300) throw new Error(`${path}: ${JSON.stringify(answer.body)}`)
    return answer.body
  }
  const info = { name: MARK, orgId: 'default' }
  const document = api('walked', 'http://127.0.0.1:1', { info }) as Record<string, any>
  const apiID = (await made('/api/apis/oas', document)).ID
  const { 'x-svc-api-gateway': extension, ...plain } = api('flowing', '', { info }) as Record<string, any>
  const streams = {
    [MARK]: { input: { http_server: { path: '/in' } }, output: { http_server: { stream_path: '/out' } } }
  }
  const stream = (
    await made(
      '/api/apis/streams',
      { ...plain, 'x-svc-api-gateway': extension, 'x-svc-streaming': { streams } },
      { 'Content-Type': 'application/vnd.svc.streams.oas' }
    )
  ).ID
  const keyID = await gw.key({ ...rights(apiID), alias: MARK, tags: [MARK] })
  const user = { first_name: MARK, last_name: MARK, email_address: `a@${MARK}.org`, user_permissions: { apis: 'read' } }
  const userID = (await made('/api/users', user)).Meta
  const group = (await made('/api/usergroups', { name: MARK })).Meta
  const policy = (await made('/api/portal/policies', { name: MARK, ...rights(apiID) })).Message
  const assetID = (await made('/api/assets', { id: 'walked', kind: 'oas-template', name: MARK, data: { [MARK]: 1 } }))
    .ID
  const hook = (await made('/api/hooks', { method: 'POST', target_path: `https://${MARK}.org/` })).Meta
  const { pem } = certificate({ subject: [[CN, MARK]] })
  const certId = (await made('/api/certs', pem)).id
  const organisation_id = String((await made('/portal-api/organisations', { Name: MARK })).ID)
  const team_id = String((await made(`/portal-api/organisations/${organisation_id}/teams`, { Name: MARK })).ID)
  const given = { Email: `b@${MARK}.org`, First: MARK, Last: MARK, OrganisationID: Number(organisation_id) }
  const user_id = String((await made('/portal-api/users', given)).ID)
  const audit = (await gw.api('GET', '/api/audit-logs')).body.audit_logs[0]._id
  // The longest beginning that fits counts.
  return [
    ['/api/keys', { keyID }],
    ['/api/apis', { apiID, keyID, username: 'walked', n: '1' }],
    ['/api/apis/streams', { apiID: stream, n: '1' }],
    ['/api/cache/jwks', { apiID }],
    ['/api/users', { id: userID }],
    ['/api/usergroups', { id: group }],
    ['/api/portal/policies', { id: policy, n: '1' }],
    ['/api/assets', { assetID, n: '1' }],
    ['/api/hooks', { id: hook }],
    ['/api/certs', { certId }],
    ['/certs', { certificateId: certId }],
    ['/api/audit-logs', { id: audit }],
    ['/portal-api/organisations', { organisation_id, team_id }],
    ['/portal-api/users', { user_id }]
  ]
}

t.test('an administrator of another organisation sees and touches nothing', async t => {
  const gw = await gateway(t, { settings: streaming })
  await gw.admin('POST', '/admin/organisations', { id: 'acme', owner_name: 'Acme' })
  const places = [...(await furnished(gw))].sort(([a], [b]) => b.length - a.length)
  const key = await gw.user({ org_id: 'acme' })

  const rows = walked.map(row => {
    const given = places.find(([start]) => row.path === start || row.path.startsWith(`${start}/`))?.[1] ?? {}
    for (const [, name] of row.path.matchAll(/\{(\w+)\}/g))
      if (given[name!] === undefined) t.fail(`this walk does not know a document for {${name}} of ${row.path}`)
    return { ...row, place: filled(row.path, given), leads: row.path.includes('{') }
  })
  const readable = rows.filter(({ method, path }) => method === 'GET' && !path.startsWith('/api/audit-logs'))
  const seenByItsOwner = async (): Promise<Map<string, string>> => {
    const seen = new Map<string, string>()
    for (const { place, leads } of readable) {
      const { status, body } = await gw.api('GET', place)
      if (leads && status !== 200) t.fail(`the owner of ${place} gets ${status} ${JSON.stringify(body)}`)
      if (leads) seen.set(place, JSON.stringify(body))
    }
    return seen
  }
  const before = await seenByItsOwner()

  for (const { method, path, place, leads, bodyForm } of rows) {
    const known = before.get(place)
    const bodies = bodyForm === 'none' ? [undefined] : [known ?? '{}', '{}', '{"new_password":"not yours"}']
    const queries = method === 'GET' && !leads ? ['', '?p=-1'] : ['']
    for (const body of bodies)
      for (const query of queries) {
        const answer = await gw.api(method, place + query, body, { key })
        const text = JSON.stringify(answer.body)
        const name = `${method} ${path}: ${answer.status} ${text.slice(0, 300)}`
        // What was sent may come back; what it had to look up may not.
        if (text.includes(MARK) && !(body ?? '').includes(MARK)) t.fail(`tells: ${name}`)
        if (answer.status >= 500) t.fail(name)
        if (leads && method !== 'POST' && answer.status < 400) t.fail(`opens: ${name}`)
      }
  }
  t.same([...(await seenByItsOwner())], [...before], 'everything is as it was')
})
