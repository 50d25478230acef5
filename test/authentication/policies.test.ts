import t from 'tap'
import type { Claim, JwtScheme } from '../../gateway/api.ts'
import { policiesOf } from '../../gateway/authentication/jwt/policies.ts'
import { claimNamed } from '../../gateway/keys/claims.ts'
import { gateway, type TestGateway } from '../helpers/gateway.ts'
import { eventsOf } from '../steps/ask.ts'
import { jwtApi, policy, signed } from './withTokens.ts'

const claims = (...names: string[]): Claim[] => names.map(claimNamed)

type Scheme = Pick<JwtScheme, 'policy' | 'client' | 'defaultPolicies' | 'scopeClaims' | 'scopePolicies'>

const NOTHING: Scheme = {
  policy: claims('pol'),
  client: null,
  defaultPolicies: [],
  scopeClaims: claims('scope'),
  scopePolicies: new Map()
}
const MAPPED: Scheme = {
  ...NOTHING,
  scopePolicies: new Map([
    ['read', ['r']],
    ['write', ['w', 'r']]
  ])
}
const DEFAULTS = { ...MAPPED, defaultPolicies: ['d', 'e'] }

const NONE = '403 key not authorized: no matching policy found'
const NO_SCOPE = '403 key not authorized: no matching policy found in scope claim'
const NEITHER = '403 key not authorized: no scope or policy in token'

/** The policies as one text, or status and text of the refusal. */
async function told(
  scheme: Scheme,
  given: Record<string, unknown>,
  isKept = false,
  clients: Record<string, string[]> = {}
) {
  const outcome = await policiesOf(given, scheme, {
    isKept: () => isKept,
    clientPolicies: id => clients[id] ?? null
  })
  return 'code' in outcome ? `${outcome.status} ${outcome.message}` : outcome.join(' ')
}

t.test('scopes, base policy and defaults: the table of semantics §6.6', async t => {
  const rows: [what: string, scheme: Scheme, claims: Record<string, unknown>, isKept: boolean, outcome: string][] = [
    ['scope, some mapped', MAPPED, { scope: 'read other' }, false, 'r'],
    ['scope, several mapped, each policy once', MAPPED, { scope: 'write read' }, false, 'w r'],
    ['scope, some mapped, with the base policy of a claim', MAPPED, { scope: 'read', pol: 'b' }, false, 'b r'],
    ['scope, some mapped: defaults are dropped', DEFAULTS, { scope: 'read' }, false, 'r'],
    ['scope, none mapped, base policy of a claim', MAPPED, { scope: 'other', pol: 'b' }, false, 'b'],
    ['scope, none mapped, base policy of a claim, defaults', DEFAULTS, { scope: 'other', pol: 'b' }, false, 'b'],
    ['scope, none mapped, no base claim', MAPPED, { scope: 'other' }, false, NO_SCOPE],
    ['scope, none mapped, no base claim, though there are defaults', DEFAULTS, { scope: 'other' }, false, NO_SCOPE],
    ['scope, none mapped, no base claim, session stored', DEFAULTS, { scope: 'other' }, true, NO_SCOPE],
    ['no scope, defaults', DEFAULTS, {}, false, 'd e'],
    ['no scope, defaults, session stored', DEFAULTS, {}, true, 'd e'],
    ['empty scope, defaults', DEFAULTS, { scope: '' }, false, 'd e'],
    ['blank scope, defaults', DEFAULTS, { scope: '   ' }, false, 'd e'],
    ['empty list of scopes, defaults', DEFAULTS, { scope: [] }, false, 'd e'],
    ['scope null, defaults', DEFAULTS, { scope: null }, false, 'd e'],
    ['no scope, base policy of a claim, defaults', DEFAULTS, { pol: 'b' }, false, 'b'],
    ['no scope, no base, no defaults, new session', MAPPED, {}, false, NONE],
    ['empty scope, no base, no defaults, new session', MAPPED, { scope: '' }, false, NONE],
    ['no scope, no base, no defaults, session stored', MAPPED, {}, true, NEITHER],
    ['empty scope, no base, no defaults, session stored', MAPPED, { scope: '' }, true, NEITHER],
    ['no mapping: scopes are not looked at', NOTHING, { scope: 'read', pol: 'b' }, false, 'b'],
    ['no mapping: scopes make no policy', NOTHING, { scope: 'read' }, false, NONE],
    ['no mapping, nothing said, session stored', NOTHING, { scope: 'read' }, true, NEITHER],
    ['scopes as a list', MAPPED, { scope: ['write', 'other'] }, false, 'w r'],
    ['a list with what is no text', MAPPED, { scope: [1, null, 'read'] }, false, 'r'],
    ['a scope claim of another shape says no scope', DEFAULTS, { scope: 42 }, false, NO_SCOPE],
    ['scopes differ in case', MAPPED, { scope: 'READ' }, false, NO_SCOPE],
    ['names of members of objects are no scopes', MAPPED, { scope: '__proto__ constructor' }, false, NO_SCOPE]
  ]
  for (const [what, scheme, given, isKept, outcome] of rows) t.equal(await told(scheme, given, isKept), outcome, what)
})

t.test('the base policy: the first claim that names one, else the client, else none', async t => {
  const two = { ...NOTHING, policy: claims('a', 'b.c'), defaultPolicies: ['d'] }
  const client = { ...two, client: claims('azp')[0]! }
  const clients = { app: ['c1', 'c2'], empty: [] }
  const rows: [what: string, scheme: Scheme, claims: Record<string, unknown>, outcome: string][] = [
    ['the first of two', two, { a: 'x', b: { c: 'y' } }, 'x'],
    ['a nested one', two, { b: { c: 'y' } }, 'y'],
    ['the whole name goes before the path', two, { 'b.c': 'whole', b: { c: 'y' } }, 'whole'],
    ['the first of a list', two, { a: ['x', 'z'] }, 'x'],
    ['an empty text is none', two, { a: '', b: { c: 'y' } }, 'y'],
    ['an empty list is none', two, { a: [] }, 'd'],
    ['another shape is none', two, { a: 7, b: { c: { d: 1 } } }, 'd'],
    ['members that every object has are no claims', { ...two, policy: claims('constructor.name') }, {}, 'd'],
    ['a client with a key', client, { azp: 'app' }, 'c1 c2'],
    ['a claim goes before the client', client, { a: 'x', azp: 'app' }, 'x'],
    ['a client without a key', client, { azp: 'stranger' }, 'd'],
    ['a client whose key has no policy', client, { azp: 'empty' }, 'd'],
    ['no client looked at', two, { azp: 'app' }, 'd'],
    [
      'a client counts as a base policy',
      { ...client, scopePolicies: MAPPED.scopePolicies },
      { azp: 'app', scope: 'x' },
      'c1 c2'
    ],
    ['scopes go along', { ...client, scopePolicies: MAPPED.scopePolicies }, { azp: 'app', scope: 'read' }, 'c1 c2 r']
  ]
  for (const [what, scheme, given, outcome] of rows) t.equal(await told(scheme, given, false, clients), outcome, what)
})

t.test('scopes: the first claim that is there and not empty; `claims` before `claimName`', async t => {
  const scheme = { ...MAPPED, scopeClaims: claims('scp', 'auth.scopes') }
  const rows: [what: string, claims: Record<string, unknown>, outcome: string][] = [
    ['the first', { scp: 'read', auth: { scopes: 'write' } }, 'r'],
    ['the second, nested', { auth: { scopes: ['write'] } }, 'w r'],
    ['an empty first counts as absent', { scp: '', auth: { scopes: 'read' } }, 'r'],
    ['another name says nothing', { scope: 'read' }, NONE]
  ]
  for (const [what, given, outcome] of rows) t.equal(await told(scheme, given), outcome, what)
})

t.test('what must be looked up in the store is waited for', async t => {
  const scheme = { ...MAPPED, client: claims('azp')[0]! }
  const late = (policies: readonly string[] | null, isKept: boolean) => ({
    isKept: async () => isKept,
    clientPolicies: async () => policies
  })
  t.same(await policiesOf({ azp: 'app' }, scheme, late(['c'], false)), ['c'])
  t.match(await policiesOf({ azp: 'app' }, scheme, late(null, false)), { message: NONE.slice(4) })
  t.match(await policiesOf({ azp: 'app' }, scheme, late(null, true)), { message: NEITHER.slice(4) })
  t.notOk(policiesOf({ pol: 'b' }, scheme, late(null, true)) instanceof Promise, 'and nothing else is')
})

const SCOPES = {
  scopes: {
    claimName: 'scope',
    scopeToPolicyMapping: [
      { scope: 'read', policyId: 'pr' },
      { scope: 'write', policyId: 'pw' },
      { scope: 'gone', policyId: 'nowhere' },
      { scope: 'foreign', policyId: 'pf' },
      { scope: 'odd', policyId: 'odd' },
      { scope: 'split', policyId: 'split' }
    ]
  },
  policyFieldName: 'pol'
}

/** Status and text of a call with a token. */
async function call(gw: TestGateway, path: string, given: Record<string, unknown>) {
  const answer = await gw.get(path, { Authorization: `Bearer ${signed(given)}` })
  const body: any = await answer.json()
  return [answer.status, answer.status === 200 ? '' : body.error]
}

t.test('through the gateway: which APIs a token opens, and what is refused', async t => {
  const gw = await gateway(t, {
    apis: [
      jwtApi('a', SCOPES),
      jwtApi('b', SCOPES),
      jwtApi('dflt', { ...SCOPES, defaultPolicies: ['pd'] }),
      jwtApi('plain', { policyFieldName: 'pol', clientBaseField: 'azp' }),
      jwtApi('unmapped', { policyFieldName: 'pol', clientBaseField: 'azp', idpClientIdMappingDisabled: true })
    ]
  })
  await policy(gw, 'pr', ['a'])
  await policy(gw, 'pw', ['b'])
  await policy(gw, 'pd', ['dflt'])
  await policy(gw, 'pp', ['plain', 'a'])
  await policy(gw, 'pf', ['a'], { org_id: 'elsewhere' })
  await policy(gw, 'odd', ['a'], { partitions: { per_api: true } })
  await policy(gw, 'split', ['a'], { partitions: { acl: true, quota: true } })
  await gw.svc('POST', '/svc/keys/app', { apply_policies: ['pp'] })
  const { key: token } = (await gw.svc('POST', '/svc/keys/create', { apply_policies: ['pp'] })).body
  let n = 0
  /** Somebody who was never here. */
  const sub = () => `somebody-${n++}`
  const CLOSED = [403, 'Access to this API has been disallowed']
  const rows: [what: string, path: string, claims: Record<string, unknown>, outcome: unknown[]][] = [
    ['a scope that is mapped', '/a/', { scope: 'read' }, [200, '']],
    ['a scope of another API', '/a/', { scope: 'write' }, CLOSED],
    ['both scopes open both', '/b/', { scope: 'read write' }, [200, '']],
    ['base and scope', '/a/', { scope: 'write', pol: 'pp' }, [200, '']],
    ['none mapped, base', '/a/', { scope: 'x', pol: 'pp' }, [200, '']],
    ['no valid scope, no defaults', '/a/', { scope: 'x' }, [403, NO_SCOPE.slice(4)]],
    ['no valid scope, defaults', '/dflt/', { scope: 'x' }, [403, NO_SCOPE.slice(4)]],
    ['no scope, defaults', '/dflt/', {}, [200, '']],
    ['no scope, nothing else', '/a/', {}, [403, NONE.slice(4)]],
    ['an unknown policy', '/a/', { pol: 'nowhere' }, [403, 'key not authorized: no matching policy']],
    ['a scope of an unknown policy', '/a/', { scope: 'gone' }, [403, 'key not authorized: no matching policy']],
    ['a policy of another organisation', '/a/', { scope: 'foreign' }, [403, 'key not authorized: no matching policy']],
    [
      'policies that do not go together',
      '/a/',
      { scope: 'odd split' },
      [403, 'key not authorized: could not apply several policies']
    ],
    ['the key of the client', '/plain/', { azp: 'app' }, [200, '']],
    ['a client that nobody knows', '/plain/', { azp: 'other' }, [403, NONE.slice(4)]],
    ['a token is no client', '/plain/', { azp: token }, [403, NONE.slice(4)]],
    ['clients not looked at', '/unmapped/', { azp: 'app' }, [403, NONE.slice(4)]]
  ]
  for (const [what, path, given, outcome] of rows) t.same(await call(gw, path, { sub: sub(), ...given }), outcome, what)
  t.match(eventsOf(gw, 'AuthFailure')[0], { api_id: 'a', path: '/a/', origin: '127.0.0.1' }, 'refusals are told')

  t.same(await call(gw, '/a/', { sub: 'known', scope: 'read' }), [200, ''], 'a first call')
  t.same(
    await call(gw, '/a/', { sub: 'known' }),
    [403, NEITHER.slice(4)],
    'a session is there, and the token says nothing'
  )

  await gw.svc('DELETE', '/svc/keys/app')
  t.same(await call(gw, '/plain/', { sub: sub(), azp: 'app' }), [403, NONE.slice(4)], 'the key of the client is gone')
})
