import { execFile } from 'node:child_process'
import { mkdirSync, readdirSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import t, { type Test } from 'tap'
import { compiled } from '../helpers/compiled.ts'
import { api, gateway, type TestGateway, withKey } from '../helpers/gateway.ts'

const program = join(import.meta.dirname, '../../control/commandLine.ts')

// Processes of their own, a dozen of them.
t.setTimeout(120_000)

interface Ran {
  readonly status: number
  readonly out: string
  readonly err: string
}

/** The command line as a process of its own. */
function svc(args: readonly string[], env: Record<string, string> = {}): Promise<Ran> {
  const node = ['--disable-warning=ExperimentalWarning', program, ...args]
  return new Promise(resolve => {
    execFile(process.execPath, node, { env: { PATH: process.env.PATH!, ...compiled, ...env } }, (error, out, err) =>
      resolve({ status: error === null ? 0 : Number(error.code), out, err })
    )
  })
}

async function started(t: Test): Promise<{ gw: TestGateway; run: (...args: string[]) => Promise<Ran>; key: string }> {
  const gw = await gateway(t)
  const key = await gw.user({ org_id: 'default' })
  const env = { SVC_URL: gw.managementUrl!, SVC_KEY: key }
  return { gw, key, run: (...args) => svc(args, env) }
}

const orders = api(
  'orders',
  'svc://echo',
  { server: { listenPath: { value: '/orders/', strip: true }, ...withKey } },
  {
    '/items': { get: { operationId: 'list', responses: { '200': { description: 'ok' } } } }
  }
)
const rights = { orders: { api_id: 'orders', api_name: 'orders', versions: ['Default'] } }
const gold = { id: 'gold', name: 'Gold', active: true, rate: 10, per: 60, access_rights: rights }

function files(t: Test, content: Record<string, unknown>): string {
  const folder = t.testdir()
  mkdirSync(join(folder, 'apis'), { recursive: true })
  for (const [name, document] of Object.entries(content))
    writeFileSync(join(folder, name), typeof document === 'string' ? document : JSON.stringify(document))
  return folder
}

t.test('apply brings documents, a second time there is nothing to do, and a change is told by meaning', async t => {
  const { gw, run } = await started(t)
  const content = {
    'apis/orders.json': orders,
    'gold.yaml': `policy: ${JSON.stringify(gold)}`,
    'more.json': {
      keys: [{ id: 'web-shop', alias: 'shop', apply_policies: ['gold'], rate: 5, per: 1 }],
      assets: [{ id: 'template', name: 'T', data: { openapi: '3.0.3' } }]
    }
  }
  const folder = files(t, content)
  const planned = await run('plan', folder)
  t.equal(planned.status, 0, planned.err)
  t.match(planned.out, /4 to create, 0 to update/)
  t.match(planned.out, /\+ api orders/)
  t.match(planned.out, /route \+ GET \/items/)
  t.match(planned.out, /rate: none → 10 per 60 s/)
  t.equal((await gw.api('GET', '/api/portal/policies/gold')).status, 404, 'plan writes nothing')

  const applied = await run('apply', folder)
  t.equal(applied.status, 0, applied.err)
  t.match(applied.out, /done: 4 to create, 0 to update/)
  t.equal((await gw.get('/orders/items', { Authorization: 'web-shop' })).status, 200)
  const audited = async () => (await gw.api('GET', '/api/audit-logs?p=-1')).body.audit_logs.length
  const writes = await audited()
  t.equal((await run('apply', folder)).out, 'nothing to do\n')
  t.equal((await run('plan', folder)).out, 'nothing to do\n')
  t.equal(await audited(), writes, 'nothing was written')

  const changed = structuredClone(orders) as any
  changed.paths['/new'] = { post: { operationId: 'new', responses: { '200': { description: 'ok' } } } }
  delete changed.paths['/items']
  changed['x-svc-api-gateway'].upstream.rateLimit = { enabled: true, rate: 7, per: '1s' }
  writeFileSync(join(folder, 'apis/orders.json'), JSON.stringify(changed))
  writeFileSync(
    join(folder, 'gold.yaml'),
    `policy: ${JSON.stringify({ ...gold, rate: 20, quota_max: 5, quota_renewal_rate: 60 })}`
  )
  const difference = await run('plan', folder)
  t.match(difference.out, /0 to create, 2 to update/)
  for (const line of [
    'rate limit: none → 7 per 1s',
    'route + POST /new',
    'route - GET /items',
    'rate: 10 per 60 s → 20 per 60 s',
    'quota: none → 5 per 60 s'
  ])
    t.ok(difference.out.includes(line), `${line}\n${difference.out}`)
  t.equal((await run('apply', folder)).status, 0)
  t.equal((await run('apply', folder)).out, 'nothing to do\n')
  t.equal((await gw.api('GET', '/api/portal/policies/gold')).body.rate, 20)
})

t.test('what export writes is nothing to do for apply, and holds no secret', async t => {
  const { gw, run } = await started(t)
  await gw.svc('POST', '/svc/apis/oas', orders)
  await gw.api('POST', '/api/portal/policies', gold)
  await gw.svc('POST', '/svc/keys/named', {
    ...gold,
    id: undefined,
    name: undefined,
    active: undefined,
    hmac_enabled: true,
    jwt_data: { secret: 'hidden' }
  })
  const token = await gw.key({ access_rights: rights })
  await gw.api('POST', '/api/assets', { id: 'template', name: 'T', data: { openapi: '3.0.3', paths: {} } })
  const folder = join(t.testdir(), 'out')
  const exported = await run('export', folder)
  t.equal(exported.status, 0, exported.err)
  t.match(exported.out, /1 APIs, 1 policies, 1 assets, 1 keys/)
  const text = readdirSync(folder, { recursive: true, withFileTypes: true })
    .filter(entry => entry.isFile())
    .map(entry => readFileSync(join(entry.parentPath, entry.name), 'utf8'))
    .join('\n')
  t.notMatch(text, /hidden|hmac_string/)
  t.notOk(text.includes(token))
  t.equal((await run('apply', folder)).out, 'nothing to do\n')
  const { body } = await gw.svc('GET', '/svc/keys/named')
  writeFileSync(
    join(folder, 'keys/named.yaml'),
    readFileSync(join(folder, 'keys/named.yaml'), 'utf8').replace('rate: 10', 'rate: 11')
  )
  const changed = await run('apply', folder)
  t.match(changed.out, /rate: 10 per 60 s → 11 per 60 s/)
  t.match((await gw.svc('GET', '/svc/keys/named')).body, {
    rate: 11,
    hmac_string: body.hmac_string,
    jwt_data: { secret: 'hidden' }
  })
})

t.test('users with a password are left out, lifetimes and large integers come back as they are', async t => {
  const { gw, run } = await started(t)
  const large = api(
    'large',
    'svc://echo',
    {},
    {
      '/a': {
        get: {
          operationId: 'a',
          parameters: [{ name: 'n', in: 'query', schema: { type: 'integer', maximum: 0 } }],
          responses: { '200': { description: 'ok' } }
        }
      }
    }
  )
  await gw.svc('POST', '/svc/apis/oas', JSON.stringify(large).replace('"maximum":0', '"maximum":9223372036854775807'))
  await gw.api('POST', '/api/portal/policies', { ...gold, key_expires_in: '5h,34m,30s' })
  await gw.svc('POST', '/svc/keys/partner', { apply_policies: ['gold'] })
  await gw.svc('PUT', '/svc/keys/partner', { apply_policies: ['gold'], expires: 4102444800 })
  for (const end of ['A', 'B'])
    await gw.svc('POST', `/svc/keys/${encodeURIComponent('é'.repeat(60))}${end}`, { access_rights: rights })
  await gw.api('POST', '/api/apis/keys/basic/carol', {
    access_rights: rights,
    basic_auth_data: { password: 'secret words' }
  })
  const folder = join(t.testdir(), 'out')
  const { out } = await run('export', folder)
  t.match(out, /1 APIs, 1 policies, 0 assets, 3 keys/)
  t.match(out, /left out: 1 users with a password/)
  t.equal(readdirSync(join(folder, 'keys')).length, 3)
  t.match(readFileSync(join(folder, 'apis/large.yaml'), 'utf8'), /maximum: 9223372036854775807/)
  t.notMatch(readFileSync(join(folder, 'keys/partner.yaml'), 'utf8'), /rate|access_rights/)
  t.equal((await run('apply', folder)).out, 'nothing to do\n')
  writeFileSync(
    join(folder, 'policies/gold.yaml'),
    `policy: ${JSON.stringify({ ...gold, key_expires_in: '5h34m30s' })}`
  )
  t.equal((await run('apply', folder)).out, 'nothing to do\n')

  const fresh = await started(t)
  t.equal((await fresh.run('apply', folder)).status, 0)
  t.equal((await fresh.run('apply', folder)).out, 'nothing to do\n')
  t.equal((await fresh.gw.svc('GET', '/svc/keys/partner')).body.expires, 4102444800)
})

t.test('files with faults are refused with every fault, and nothing is called', async t => {
  const folder = files(t, {
    'broken.json': '{',
    'what.yaml': 'surprise: 1',
    'nameless.json': { policy: { rate: 1 } },
    'twice.json': { policies: [gold, gold] }
  })
  const { status, err } = await svc(['validate', folder])
  t.equal(status, 2)
  for (const fault of [
    /broken.json: /,
    /what.yaml: surprise is not known/,
    /nameless.json: policy: id is required/,
    /policy gold stands in .*twice.json too/
  ])
    t.match(err, fault)
  const wrong = files(t, {
    'p.json': { policy: { ...gold, rate: 'fast', colour: 'red' } },
    'a.json': api('a', 'nonsense')
  })
  const told = await svc(['validate', wrong])
  t.equal(told.status, 2)
  t.match(told.err, /policy gold: \/rate must be number/)
  t.match(told.err, /policy gold: \/colour is not known here/)
  t.match(told.err, /api a: \/x-svc-api-gateway\/upstream\/url/)
  const open = files(t, { 'a.json': { ...orders, security: [{ key: [] }] }, 'b.json': api('open', 'svc://echo') })
  const noted = await svc(['validate', open])
  t.equal(noted.status, 0)
  t.match(noted.out, /^2 documents are valid\n[^\n]*b.json: api open: open to everyone: authentication is off\n$/)
})

t.test('what is open is told of the files without faults, whatever is wrong with others', async t => {
  const folder = files(t, {
    'open.json': api('open', 'svc://echo'),
    'unreadable.json': '{',
    'faulty.json': api('faulty', 'nonsense')
  })
  const all = (...names: string[]) => svc(['validate', ...names.map(name => join(folder, name))])
  const note = /^[^\n]*open.json: api open: open to everyone: authentication is off\n$/
  for (const [told, fault] of [
    [await all('faulty.json', 'open.json'), /api faulty: .*upstream/],
    [await all('open.json', 'unreadable.json'), /unreadable.json: /]
  ] as const) {
    t.equal(told.status, 2)
    t.match(told.err, fault)
    t.match(told.out, note)
  }
})

t.test('wrong arguments, a wrong key and a gateway that is away are told apart', async t => {
  const { gw } = await started(t)
  const folder = files(t, { 'p.json': { policy: gold } })
  t.equal((await svc([])).status, 2)
  t.equal((await svc(['frob'])).status, 2)
  t.equal((await svc(['plan'], { SVC_KEY: 'x' })).status, 2)
  t.match((await svc(['plan', folder])).err, /an access key is missing/)
  t.match((await svc(['plan', folder, '--nonsense'])).err, /nonsense/)
  const refused = await svc(['plan', folder, '--url', gw.managementUrl!, '--key', 'wrong'])
  t.equal(refused.status, 1)
  t.match(refused.err, /401: Not authorised/)
  const elsewhere = await svc(['plan', folder, '--url', gw.url, '--key', 'x'])
  t.equal(elsewhere.status, 1)
  t.match(elsewhere.err, /is no management interface/)
  const away = await svc(['plan', folder, '--url', 'http://127.0.0.1:1', '--key', 'x'])
  t.equal(away.status, 1)
  t.match(away.err, /cannot be reached/)
  const help = await svc(['--help'])
  t.equal(help.status, 0)
  t.match(help.out, /plan FILE/)
})
