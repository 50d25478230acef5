import fc from 'fast-check'
import t from 'tap'
import type { Key } from '../../config/shape/key.ts'
import type { Policy } from '../../config/shape/policy.ts'
import { applyPolicies } from '../../gateway/keys/merge.ts'

const a = { A: {} }
const b = { B: {} }
const both = { A: {}, B: {} }

function apply(key: Key, policies: Record<string, Policy | null>): Key {
  const applied = applyPolicies(
    key,
    'default',
    Object.entries(policies).map(([id, policy]) => ({ id, policy }))
  )
  if ('problem' in applied) throw new Error(applied.problem)
  return applied.key
}

function problem(key: Key, policies: Record<string, Policy | null>): string {
  const applied = applyPolicies(
    key,
    'default',
    Object.entries(policies).map(([id, policy]) => ({ id, policy }))
  )
  return 'problem' in applied ? applied.problem : ''
}

t.test('the table of semantics §12.8', async t => {
  const cases: [string, Key, Record<string, Policy | null>, unknown][] = [
    [
      'the faster rate and the larger quota',
      {},
      {
        P1: { rate: 10, per: 60, quota_max: 100, access_rights: a },
        P2: { rate: 20, per: 60, quota_max: 50, access_rights: a }
      },
      { A: { limit: { rate: 20, per: 60, quota_max: 100 } } }
    ],
    [
      'of equal pace the first stays',
      {},
      { P1: { rate: 5, per: 30, access_rights: a }, P2: { rate: 10, per: 60, access_rights: a } },
      { A: { limit: { rate: 5, per: 30 } } }
    ],
    [
      '-1 is the largest quota',
      {},
      { P1: { quota_max: -1, access_rights: a }, P2: { quota_max: 1000, access_rights: a } },
      { A: { limit: { quota_max: -1 } } }
    ],
    [
      'what no partition covers comes from the key',
      { quota_max: 7, quota_renewal_rate: 60, rate: 1, per: 1 },
      {
        P1: { partitions: { acl: true }, access_rights: a },
        P2: { partitions: { rate_limit: true }, rate: 9, per: 3, access_rights: a }
      },
      { A: { limit: { rate: 9, per: 3, quota_max: 7, quota_renewal_rate: 60 } } }
    ],
    [
      'two policies that grant two APIs count on their own',
      {},
      { P1: { rate: 1, per: 1, access_rights: a }, P2: { rate: 2, per: 1, access_rights: b } },
      {
        A: { limit: { rate: 1, per: 1 }, allowance_scope: 'P1' },
        B: { limit: { rate: 2, per: 1 }, allowance_scope: 'P2' }
      }
    ],
    [
      'per_api: the own limit of an API, else the policy’s, shared',
      {},
      {
        P1: {
          partitions: { per_api: true },
          rate: 50,
          per: 1,
          access_rights: { A: { limit: { rate: 5, per: 1 } }, B: {} }
        }
      },
      {
        A: { limit: { rate: 5, per: 1 }, allowance_scope: 'A' },
        B: { limit: { rate: 50, per: 1 }, allowance_scope: 'P1' }
      }
    ],
    [
      'one policy deleted, one left',
      {},
      { gone: null, P1: { rate: 3, per: 1, access_rights: a } },
      { A: { limit: { rate: 3, per: 1 } } }
    ]
  ]
  for (const [name, key, policies, rights] of cases) {
    t.strictSame(JSON.parse(JSON.stringify(apply(key, policies).access_rights)), rights, name)
  }
  t.equal(
    problem(
      {},
      { P1: { partitions: { per_api: true }, access_rights: a }, P2: { partitions: { acl: true }, access_rights: a } }
    ),
    'cannot apply multiple policies when some have per_api set and some are partitioned'
  )
  t.equal(apply({}, { P1: { access_rights: a }, P2: { is_inactive: true, access_rights: a } }).is_inactive, true)
  t.equal(apply({ is_inactive: true }, { P1: { access_rights: a } }).is_inactive, false)
  t.equal(problem({ access_rights: a }, { gone: null }), 'policy not found: "gone"')
})

t.test('policies that cannot be applied say why', async t => {
  t.equal(
    problem({}, { P: { partitions: { per_api: true, quota: true }, access_rights: a } }),
    'cannot apply policy P which has per_api and any of partitions set'
  )
  t.match(problem({}, { P: { org_id: 'other', access_rights: a } }), /another organisation/)
  t.equal(problem({ access_rights: a }, { x: null, y: null }), 'key has no valid policies to be applied')
  t.equal(
    problem({}, { P: { partitions: { quota: true }, quota_max: 1, access_rights: a } }),
    'key has no valid policies to be applied'
  )
})

t.test('values that policies control are theirs, whatever the key says', async t => {
  const key = { rate: 1000, per: 1, quota_max: 1000, max_query_depth: 9, throttle_interval: 3 }
  const applied = apply(key, { P: { rate: 1, per: 1, access_rights: both } })
  t.strictSame(applied.access_rights, { A: { limit: { rate: 1, per: 1 } }, B: { limit: { rate: 1, per: 1 } } })
  t.equal(applied.rate, undefined)
  t.equal(applied.quota_max, undefined)
  t.equal(applied.throttle_interval, undefined)
})

t.test('the limits of the only API stand at the root as well', async t => {
  const applied = apply({}, { P: { rate: 4, per: 2, quota_max: 8, quota_renewal_rate: 60, access_rights: a } })
  t.match(applied, { rate: 4, per: 2, quota_max: 8, quota_renewal_rate: 60 })
})

t.test('an API that an acl policy grants is held to a rate policy of the key that does not list it', async t => {
  const acl = { partitions: { acl: true }, access_rights: both }
  const rate = { partitions: { rate_limit: true }, rate: 2, per: 1, access_rights: a }
  t.match(apply({}, { acl, rate }).access_rights, { B: { limit: { rate: 2, per: 1 } } })
})

t.test('policies without rights set the root, and keys keep their own rights when no policy gives any', async t => {
  t.match(apply({}, { P: { rate: 2, per: 1 } }), { rate: 2, per: 1, access_rights: {} })
  const own = { access_rights: { A: {}, B: { limit: { rate: 1, per: 9 } } }, rate: 100, per: 1 }
  const kept = apply(own, { P: { partitions: { rate_limit: true }, rate: 3, per: 1, access_rights: a } })
  t.match(kept, { rate: 3, per: 1, access_rights: { A: {}, B: { limit: { rate: 1, per: 9 }, allowance_scope: 'B' } } })
})

t.test('without policies each API with a limit of its own has a scope of its own', async t => {
  t.strictSame(
    apply({ access_rights: { A: { limit: { rate: 1, per: 1 } }, B: { limit: { rate: 0, per: 0 } }, C: {} } }, {})
      .access_rights,
    {
      A: { limit: { rate: 1, per: 1 }, allowance_scope: 'A' },
      B: { limit: { rate: 0, per: 0 } },
      C: {}
    }
  )
})

t.test('smoothing travels with the rate that wins', async t => {
  const smoothing = { enabled: true, threshold: 2, trigger: 1, step: 1, delay: 1 }
  const slow = { rate: 5, per: 60, smoothing, access_rights: a }
  const fast = { rate: 10, per: 60, access_rights: a }
  t.notOk(apply({}, { slow, fast }).access_rights!.A!.limit!.smoothing)
  t.strictSame(apply({}, { fast: { ...fast, smoothing }, slow }).access_rights!.A!.limit!.smoothing, smoothing)
})

t.test('unlimited rates win, rates that say nothing never do', async t => {
  const limited = { rate: 10, per: 60, access_rights: a }
  t.match(apply({}, { limited, free: { rate: -1, per: 1, access_rights: a } }).access_rights, {
    A: { limit: { rate: -1 } }
  })
  t.match(apply({}, { none: { rate: 0, per: 60, access_rights: a }, limited }).access_rights, {
    A: { limit: { rate: 10 } }
  })
  t.match(apply({}, { limited, none: { rate: 1000, per: 0, access_rights: a } }).access_rights, {
    A: { limit: { rate: 10 } }
  })
})

t.test('rights of several policies are united', async t => {
  const endpoints = (rate: number, per: number) => [{ path: '/x', methods: [{ name: 'GET', limit: { rate, per } }] }]
  const one = {
    versions: ['v1'],
    allowed_urls: [
      { url: '/b', methods: ['GET'] },
      { url: '/a', methods: ['GET'] }
    ],
    endpoints: endpoints(1, 60)
  }
  const two = {
    versions: ['v2', 'v1'],
    allowed_urls: [
      { url: '/a', methods: ['POST', 'GET'] },
      { url: '/c', methods: null }
    ],
    disable_introspection: true,
    endpoints: [...endpoints(2, 120), { path: '/y', methods: [{ name: 'post', limit: { rate: 1, per: 1 } }] }]
  }
  const merged = {
    versions: ['v1', 'v2'],
    allowed_urls: [
      { url: '/b', methods: ['GET'] },
      { url: '/a', methods: ['GET', 'POST'] },
      { url: '/c', methods: [] }
    ],
    endpoints: [
      { path: '/x', methods: [{ name: 'GET', limit: { rate: 2, per: 120 } }] },
      { path: '/y', methods: [{ name: 'post', limit: { rate: 1, per: 1 } }] }
    ],
    disable_introspection: true
  }
  t.match(apply({}, { P1: { access_rights: { A: one } }, P2: { access_rights: { A: two } } }).access_rights, {
    A: merged
  })
})

t.test('tags, meta data and flags', async t => {
  const applied = apply(
    { tags: ['k'], meta_data: { a: 1, b: 1 }, last_updated: '100' },
    {
      P1: { tags: ['x'], meta_data: { b: 2, c: 2 }, last_updated: '200', hmac_enabled: true, access_rights: a },
      P2: { tags: ['x', 'y'], meta_data: { c: 3 }, last_updated: '150', post_expiry_action: 'delete', access_rights: a }
    }
  )
  t.match(applied, {
    meta_data: { a: 1, b: 2, c: 3 },
    last_updated: '200',
    hmac_enabled: true,
    post_expiry_action: 'delete'
  })
  t.strictSame(applied.tags, ['k', 'x', 'y'])
})

t.test('__proto__ is a name like any other', async t => {
  const evil = JSON.parse('{"__proto__":{"versions":["v"]},"constructor":{}}')
  const metaData = JSON.parse('{"__proto__":{"isAdmin":true}}')
  const applied = apply({}, { P: { rate: 1, per: 1, access_rights: evil, meta_data: metaData } })
  t.strictSame(Object.keys(applied.access_rights!), ['__proto__', 'constructor'])
  t.strictSame(Object.keys(applied.meta_data as object), ['__proto__'])
  t.equal(({} as { isAdmin?: boolean }).isAdmin, undefined)
  t.equal(Object.getPrototypeOf(applied.access_rights), Object.prototype)
})

t.test('what is given is never changed', async t => {
  const key = { rate: 1, per: 1, access_rights: { A: { limit: { rate: 1, per: 1 } } }, meta_data: { a: 1 } }
  const policy = { rate: 2, per: 1, access_rights: { A: { versions: ['v'] } }, meta_data: { b: 1 } }
  const before = JSON.stringify([key, policy])
  apply(key, { P: policy, Q: { ...policy, access_rights: { A: { versions: ['w'] } } } })
  t.equal(JSON.stringify([key, policy]), before)
})

const pace = ({ rate = 0, per = 0 }: { rate?: number; per?: number }) =>
  rate === 0 || per === 0 ? null : rate < 0 ? 0 : per / rate
const most = (quotas: number[]) => (quotas.includes(-1) ? -1 : Math.max(0, ...quotas))
const anyPolicy = fc.record({
  rate: fc.integer({ min: -1, max: 20 }),
  per: fc.constantFrom(0, 1, 7, 60),
  quota_max: fc.integer({ min: -1, max: 50 }),
  quota_renewal_rate: fc.integer({ min: 0, max: 100 }),
  throttle_interval: fc.integer({ min: -1, max: 5 }),
  access_rights: fc.constantFrom(a, b, both)
})

t.test('merged limits are those of the most generous policy of each API, in any order', async t => {
  fc.assert(
    fc.property(fc.array(anyPolicy, { minLength: 1, maxLength: 5 }), fc.nat(), (policies, shift) => {
      const named = policies.map((policy, i) => [`P${i}`, policy] as const)
      const turned = named.map((_, i) => named[(i + shift) % named.length]!)
      for (const order of [named, turned]) {
        const { access_rights: rights } = apply({ rate: 999, per: 1, quota_max: 999 }, Object.fromEntries(order))
        for (const [apiId, right] of Object.entries(rights!)) {
          const giving = policies.filter(policy => Object.hasOwn(policy.access_rights, apiId))
          const paces = giving.map(pace).filter(each => each !== null)
          const expected = paces.length === 0 ? null : Math.min(...paces)
          if (pace(right.limit ?? {}) !== expected) return false
          if ((right.limit?.quota_max ?? 0) !== most(giving.map(policy => policy.quota_max))) return false
        }
      }
      return true
    }),
    { numRuns: 500 }
  )
  t.pass()
})
