import t from 'tap'
import { UNKNOWN_VARIABLE } from '../../gateway/documents/readMembers.ts'
import type { Exchange } from '../../gateway/exchange.ts'
import { patternOf } from '../../gateway/keys/pattern.ts'
import { text, variable } from '../../gateway/variables.ts'
import { isKnown } from '../../streams/processors/template.ts'
import { gateway } from '../helpers/gateway.ts'
import { ask } from '../steps/ask.ts'
import { jwtApi, policy, signed } from './withTokens.ts'

const CLAIMS = {
  sub: 'ada',
  Sub: 'Case',
  n: 7,
  yes: true,
  none: null,
  list: ['a', 1],
  org: { unit: 'x', 'a.b': 'inner' },
  'org.name': 'whole',
  'with-dash': 'd',
  line: 'a\r\nb\u0000c'
}
const x = { claims: CLAIMS, credential: 'the-token', key: null, path: '/p', query: '' } as unknown as Exchange

t.test('claims of a verified token and the token itself', async t => {
  const rows: [template: string, filled: string][] = [
    ['$svc_context.jwt_claims_sub', 'ada'],
    ['$svc_context.jwt_claims_Sub', 'Case'],
    ['$svc_context.jwt_claims_SUB', ''],
    ['<$svc_context.jwt_claims_n|$svc_context.jwt_claims_yes|$svc_context.jwt_claims_none>', '<7|true|>'],
    ['$svc_context.jwt_claims_list', '["a",1]'],
    ['$svc_context.jwt_claims_org', '{"unit":"x","a.b":"inner"}'],
    ['$svc_context.jwt_claims_org.unit', 'x'],
    ['$svc_context.jwt_claims_org.name', 'whole'],
    ['$svc_context.jwt_claims_org.other', ''],
    ['$svc_context.jwt_claims_list.0', 'a'],
    ['$svc_context.jwt_claims_with-dash.', 'd.'],
    ['$svc_context.jwt_claims_constructor', ''],
    ['$svc_context.jwt_claims_sub.length', ''],
    ['<$svc_context.jwt_claims_line>', '<>'],
    ['$svc_context.token', 'the-token'],
    ['$svc_context.token.x', 'the-token.x'],
    ['$svc_context.path.json', '/p.json'],
    ['$svc_context.tokens', '']
  ]
  for (const [template, filled] of rows) t.equal(text(template)(x), filled, template)
  const keyless = { ...x, claims: null, credential: null } as unknown as Exchange
  t.equal(text('$svc_context.jwt_claims_sub$svc_context.token')(keyless), '')
})

t.test('two different claims never become the same header', async t => {
  const filled = (sub: unknown, template = '$svc_context.jwt_claims_sub') =>
    text(template)({ ...x, claims: { sub } } as unknown as Exchange)
  const rows: [claim: unknown, filled: string][] = [
    ['admin\u6f22', Buffer.from('admin\u6f22').toString('latin1')],
    ['\u00e9', '\u00c3\u00a9'],
    ['a\tb c', 'a\tb c'],
    ['adm\r\nin', ''],
    ['ad\0min', ''],
    ['admin\x7f', ''],
    ['admin ', ''],
    ['\tadmin', ''],
    ['\ud800', ''],
    [{ a: 'x\ny\u6f22' }, Buffer.from('{"a":"x\\ny\u6f22"}').toString('latin1')],
    [Number.MAX_SAFE_INTEGER, '9007199254740991'],
    [2 ** 53, ''],
    [0.5, '0.5'],
    ['x'.repeat(8192), 'x'.repeat(8192)],
    ['x'.repeat(8193), ''],
    ['\u6f22'.repeat(2731), '']
  ]
  for (const [claim, expected] of rows) t.equal(filled(claim), expected, JSON.stringify(claim).slice(0, 30))
  t.equal(filled('x'.repeat(8192), 'u-$svc_context.jwt_claims_sub'), '', 'nor is one cut with what stands around it')
  t.equal(variable('svc_context.jwt_claims_sub')({ ...x, claims: { sub: '\u6f22' } } as unknown as Exchange), '\u6f22')
})

t.test('documents may name them, and nothing like them', async t => {
  for (const known of ['jwt_claims_sub', 'jwt_claims_a.b', 'jwt_claims_-', 'token', 'token.x'])
    t.notMatch(`$svc_context.${known}`, UNKNOWN_VARIABLE, known)
  for (const unknown of ['jwt_claims_', 'jwt_claims', 'jwt_claims_.', 'tokens', 'token_x', 'token-x', 'Token'])
    t.match(`$svc_context.${unknown}`, UNKNOWN_VARIABLE, unknown)
})

t.test('streams may name claims, never the token', async t => {
  t.equal(isKnown('svc_context.jwt_claims_sub'), true)
  t.equal(isKnown('svc_context.jwt_claims_'), false)
  t.equal(isKnown('svc_context.token'), false)
})

t.test('streams know claims: as keys of messages, in filters; the token is refused on save', async t => {
  const streaming = { enabled: true }
  const gw = await gateway(t, { settings: { gateway: { streaming }, management: { streaming } } })
  const stream = (id: string, key: string, filter: string | null = null) => {
    const document: any = jwtApi(id, { defaultPolicies: ['gold'] })
    const kafka = { addresses: ['memory://m'], topics: ['x'], consumer_group: 'g' }
    document['x-svc-streaming'] = {
      streams: {
        in: {
          input: { http_server: { path: '/post', key } },
          output: { kafka: { addresses: ['memory://m'], topic: 'x' } }
        },
        out: {
          input: { kafka },
          output: {
            http_server: { path: '/get', timeout: '2s', ...(filter === null ? {} : { filter: { check: filter } }) }
          }
        }
      }
    }
    delete document['x-svc-api-gateway'].upstream.url
    return document
  }
  const refused = await gw.svc('POST', '/svc/apis/oas', stream('s', '$svc_context.token'))
  t.equal(refused.status, 400)
  t.match(refused.body.message, 'svc_context.token, which does not exist')
  t.equal((await gw.svc('POST', '/svc/apis/oas', stream('s', 'x', 'key == caller("svc_context.token")'))).status, 400)
  const filter = 'key == caller("svc_context.jwt_claims_sub")'
  const saved = await gw.svc('POST', '/svc/apis/oas', stream('s', '$svc_context.jwt_claims_sub', filter))
  t.equal(saved.status, 200, JSON.stringify(saved.body))
  await policy(gw, 'gold', ['s'])
  const headers = { Authorization: `Bearer ${signed({ sub: 'ada' })}` }
  t.equal((await ask(gw, '/s/post', { method: 'POST', headers, body: 'hello' })).status, 200)
  const got = await ask(gw, '/s/get', { headers })
  t.same([got.status, got.text], [200, 'hello'])
})

t.test('patterns of rate limits count by claims', async t => {
  const request = { header: () => null, path: '/', client: '', claims: CLAIMS, credential: 'the-token' }
  const rows: [template: string, part: string][] = [
    ['u-$svc_context.jwt_claims_sub', 'u-ada'],
    ['$svc_context.jwt_claims_org.unit|$svc_context.path', 'x|/'],
    ['$svc_context.jwt_claims_other', ''],
    ['$svc_context.token', 'the-token']
  ]
  for (const [template, part] of rows) t.equal(patternOf({ rate_limit_pattern: template })!(request), part, template)
  t.equal(patternOf({ rate_limit_pattern: 'u-$svc_context.jwt_claims_sub' })!({ ...request, claims: null }), '')
})

t.test('through the gateway: in headers of requests and answers', async t => {
  const add = [
    { name: 'X-User', value: '$svc_context.jwt_claims_sub of $svc_context.jwt_claims_org.unit' },
    { name: 'X-Token', value: '$svc_context.token' }
  ]
  const gw = await gateway(t, {
    apis: [
      jwtApi(
        'a',
        { defaultPolicies: ['gold'] },
        {
          middleware: {
            global: {
              transformRequestHeaders: { enabled: true, add },
              transformResponseHeaders: {
                enabled: true,
                add: [{ name: 'X-Who', value: '$svc_context.jwt_claims_sub' }]
              }
            }
          }
        }
      )
    ]
  })
  await policy(gw, 'gold', ['a'])
  const token = signed({ sub: 'ada', org: { unit: 'x' } })
  const { status, json, headers } = await ask(gw, '/a/', { headers: { Authorization: `Bearer ${token}` } })
  t.equal(status, 200)
  t.match(json.headers, { 'x-user': 'ada of x', 'x-token': token })
  t.equal(headers['x-who'], 'ada')
  const foreign = await ask(gw, '/a/', { headers: { Authorization: `Bearer ${signed({ sub: 'z\u6f22' })}` } })
  t.equal(Buffer.from(foreign.json.headers['x-user'], 'latin1').toString(), 'z\u6f22 of ')
  t.equal(Buffer.from(String(foreign.headers['x-who']), 'latin1').toString(), 'z\u6f22')
  t.notMatch(JSON.stringify(gw.log.lines), token)
  const refused = await ask(gw, '/a/', { headers: { Authorization: 'Bearer x.y.z' } })
  t.equal(refused.headers['x-who'] ?? '', '', 'nobody was verified')
})
