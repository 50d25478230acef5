import t, { type Test } from 'tap'
import { Settings } from '../../config/settings.ts'
import { compile } from '../../config/validate.ts'
import type { Identity } from '../../gateway/authentication/identities.ts'
import { openIdentities } from '../../gateway/authentication/openIdentities.ts'
import { changesLocal } from '../../gateway/changes/changesLocal.ts'
import { type KeyRecord, Keys, Session } from '../../gateway/keys/keys.ts'
import { Policies } from '../../gateway/keys/policies.ts'
import { customId } from '../../gateway/keys/token.ts'
import type { Refusal } from '../../gateway/refusals.ts'
import { type Document, type Store, Unavailable, type Write } from '../../gateway/store/store.ts'
import { storeMemory } from '../../gateway/store/storeMemory.ts'
import { type HandClock, handClock } from '../helpers/clock.ts'
import { collectedLog } from '../helpers/gateway.ts'
import { md5 } from './withTokens.ts'

const MINUTE = 60_000
const settings = compile(Settings)({ gateway: { secret: 'secret' } }).gateway

/** A store whose medium a test takes away, and that counts what is asked of it. */
class Medium {
  readonly real = storeMemory()
  reads = 0
  readonly commits: (readonly Write[])[] = []
  away = false
  /** Reads come as promises and wait for it. */
  gate: Promise<void> | null = null
  readonly store: Store = {
    ...this.real,
    get: <T>(kind: any, id: string): any => {
      if (kind !== 'key') return this.real.get<T>(kind, id)
      this.reads++
      if (this.away) throw new Unavailable('away')
      const { gate } = this
      if (gate === null) return this.real.get<T>(kind, id)
      const read = this.real.get<T>(kind, id)
      return gate.then(() => read)
    },
    commit: async writes => {
      if (this.away) throw new Unavailable('away')
      this.commits.push(writes)
      return this.real.commit(writes)
    }
  }
}

/** One process: its memory and its writing. */
function process(t: Test, medium: Medium, clock: HandClock, more: { most?: number } = {}) {
  const { store } = medium
  const changes = changesLocal()
  const matching = { matching: settings.endpoint_matching, ignoreCase: false }
  const policies = new Policies({ store, changes, matching, path: '' })
  const keys = new Keys({ store, policies, changes, clock, settings })
  const log = collectedLog()
  const identities = openIdentities({ store, changes, keys, policies, clock, log, ...more })
  t.teardown(async () => {
    await identities.close()
    keys.close()
    policies.close()
  })
  return { identities, changes, policies, keys, log }
}

async function start(t: Test, more: { most?: number } = {}) {
  const clock = handClock()
  const medium = new Medium()
  const rights = { a: { api_id: 'a', api_name: 'a', versions: ['Default'] } }
  const made = (id: string, body: object = {}): Write => ({
    kind: 'policy',
    id,
    org: 'default',
    body: { id, _id: id, name: id, org_id: 'default', active: true, rate: 10, per: 1, access_rights: rights, ...body }
  })
  await medium.real.commit([
    made('gold'),
    made('silver'),
    made('off', { is_inactive: true }),
    made('foreign', { org_id: 'elsewhere' }),
    made('each', { partitions: { per_api: true } }),
    made('part', { partitions: { acl: true, rate_limit: true } })
  ])
  const one = process(t, medium, clock, more)
  /** What is kept of somebody. */
  const kept = (name: string) =>
    medium.real.get<KeyRecord>('key', customId('default', md5(name))) as Document<KeyRecord> | null
  const identity = (name: string, given: Partial<Identity> = {}): Identity => ({
    org: 'default',
    name,
    policies: ['gold'],
    until: clock.now() + 60 * MINUTE,
    lifetime: null,
    ...given
  })
  /** Whoever writes behind has done so. */
  const written = async () => {
    await clock.move(200)
    await clock.move(0)
    await new Promise(resolve => setImmediate(resolve))
  }
  return { clock, medium, ...one, kept, identity, written }
}

function isSession(answer: unknown): answer is Session {
  return answer instanceof Session
}

const message = (answer: Session | Refusal | Promise<Session | Refusal>) => (answer as Refusal).message

t.test('a session is made at once and kept behind the request, as a key of the organisation', async t => {
  const { clock, identities, kept, identity, written } = await start(t)
  const until = clock.now() + 60 * MINUTE
  const session = identities.session(identity('ada@example.com', { until: until + 500 }))
  if (!isSession(session)) return t.fail('no session')
  t.equal(session.hash, customId('default', md5('ada@example.com')))
  t.equal(session.proof, 'identity')
  t.equal(session.expiresMs, until + 1000, 'whole seconds, the last one included')
  t.ok(session.grant('a'))
  t.equal(session.grant('b'), null)
  t.equal(kept('ada@example.com'), null, 'nobody waited for the store')
  t.equal(identities.session(identity('ada@example.com', { until })), session, 'the same session again')
  await written()
  const document = kept('ada@example.com')!
  t.same([document.org, document.rev], ['default', 1])
  t.same(document.body, {
    name: md5('ada@example.com'),
    generated: false,
    isIdentity: true,
    key: {
      alias: 'ada@example.com',
      apply_policies: ['gold'],
      date_created: new Date(clock.now() - 200).toISOString(),
      expires: until / 1000 + 1,
      org_id: 'default',
      last_updated: String((clock.now() - 200) / 1000)
    }
  })
  await written()
  t.equal(kept('ada@example.com')!.rev, 1, 'nothing else is written')
  t.equal(
    identities.session(identity('ada@example.com', { until })),
    session,
    'what was written here makes nothing void'
  )
})

t.test('expiry is the later of token and session', async t => {
  const { clock, identities, identity } = await start(t)
  const now = clock.now()
  const rows: [what: string, until: number, expires: number][] = [
    ['the first', now + 1000, now + 1000],
    ['a later one', now + 5000, now + 5000],
    ['an earlier one', now + 2000, now + 5000],
    ['one that never ends', Number.POSITIVE_INFINITY, Number.POSITIVE_INFINITY],
    ['an earlier one again', now + 9000, Number.POSITIVE_INFINITY]
  ]
  for (const [what, until, expires] of rows) {
    const session = identities.session(identity('ada', { until })) as Session
    t.equal(session.expiresMs, expires, what)
  }
})

t.test('a session that only grows is written at most once a minute, by whichever process', async t => {
  const { clock, medium, identities, identity, kept, written } = await start(t)
  const other = process(t, medium, clock)
  identities.session(identity('ada'))
  await written()
  for (let second = 0; second < 150; second++) {
    identities.session(identity('ada'))
    other.identities.session(identity('ada'))
    await clock.move(1000)
  }
  await written()
  const { rev, body } = kept('ada')!
  t.ok(rev >= 3 && rev <= 4, `${rev} writes in 150 s`)
  t.ok(body.key.expires! * 1000 > clock.now() + 28 * MINUTE)
})

t.test('an end that moves by a minute, or is near, is written at once, but once a second', async t => {
  const { clock, identities, identity, kept, written } = await start(t)
  const begin = clock.now()
  const stored = (name: string) => (kept(name)!.body.key.expires! * 1000 - begin) / MINUTE
  const ask = (name: string, minutes: number) => identities.session(identity(name, { until: begin + minutes * MINUTE }))
  for (const name of ['far', 'near', 'hardly']) ask(name, name === 'near' ? 1 : 10)
  await written()
  await clock.move(1000)
  ask('far', 11)
  ask('near', 1.5)
  ask('hardly', 10.9)
  await written()
  t.same(['far', 'near', 'hardly'].map(stored), [11, 1.5, 10])
  ask('far', 13)
  await written()
  t.equal(stored('far'), 11, 'not twice in a second')
  await clock.move(1000)
  ask('far', 13)
  await written()
  t.equal(stored('far'), 13)
  ask('far', Number.POSITIVE_INFINITY)
  await clock.move(1000)
  ask('far', 13)
  await written()
  t.equal(kept('far')!.body.key.expires, 0, 'one that never ends')
  await clock.move(MINUTE)
  ask('hardly', 10.9)
  await written()
  t.equal(stored('hardly'), 10.9, 'less than a minute waits for a minute')
})

t.test('policies: re-applied where they differ, and what cannot be applied', async t => {
  const { identities, identity, kept, written, medium, changes, policies } = await start(t)
  const session = identities.session(identity('ada')) as Session
  await written()
  const silver = identities.session(identity('ada', { policies: ['silver'] })) as Session
  t.not(silver, session)
  t.same(silver.key.apply_policies, ['silver'])
  t.equal(
    (identities.session(identity('ada', { policies: null })) as Session).key.apply_policies![0],
    'silver',
    'null keeps them'
  )
  t.equal(
    (identities.session(identity('ada', { policies: [] })) as Session).key.apply_policies![0],
    'silver',
    'so does an empty list'
  )
  await written()
  t.same(kept('ada')!.body.key.apply_policies, ['silver'])
  const rows: [policies: string[] | null, message: string][] = [
    [['nowhere'], 'key not authorized: no matching policy'],
    [['foreign'], 'key not authorized: no matching policy'],
    [['gold', 'foreign'], 'key not authorized: no matching policy'],
    [['nowhere', 'nobody'], 'key not authorized: no matching policy'],
    [['each', 'part'], 'key not authorized: could not apply several policies'],
    [null, 'key not authorized: no matching policy found']
  ]
  for (const [given, text] of rows) {
    const answer = identities.session(identity('new', { policies: given })) as Refusal
    t.same([answer.status, answer.message], [403, text], String(given))
    if (given !== null)
      t.equal(message(identities.session(identity('ada', { policies: given }))), text, `known: ${given}`)
  }
  t.ok(isSession(identities.session(identity('ada', { policies: ['silver'] }))), 'a refused token harms no session')
  t.equal((identities.session(identity('bob', { policies: ['off'] })) as Session).inactive, true)
  const { body } = (await medium.real.get('policy', 'silver'))!
  const changed = { ...(body as object), tags: ['new'] }
  const sequence = await medium.real.commit([{ kind: 'policy', id: 'silver', org: 'default', body: changed }])
  await changes.publish([{ sequence, kind: 'policy', id: 'silver', deleted: false }])
  t.equal(policies.epoch, 1)
  const again = identities.session(identity('ada', { policies: ['silver'] })) as Session
  t.same(again.key.tags, ['new'], 'a change of the policy counts for the next request')
})

t.test('another process finds the session, and both write one document', async t => {
  const { clock, medium, identities, identity, kept, written } = await start(t)
  const other = process(t, medium, clock)
  const until = clock.now() + MINUTE
  for (let n = 0; n < 20; n++) {
    identities.session(identity(`both-${n}`, { until }))
    other.identities.session(identity(`both-${n}`, { until: until + MINUTE, policies: n % 2 ? ['silver'] : ['gold'] }))
  }
  await written()
  for (let n = 0; n < 20; n++) t.equal(kept(`both-${n}`)!.rev, 1)
  for (let n = 0; n < 20; n++)
    other.identities.session(identity(`both-${n}`, { until: until + MINUTE, policies: ['silver'] }))
  await written()
  for (let n = 0; n < 20; n++) t.same(kept(`both-${n}`)!.body.key.apply_policies, ['silver'])
  const third = process(t, medium, clock)
  const before = medium.commits.length
  const found = third.identities.session(identity('both-1', { until, policies: null })) as Session
  t.same(found.key.apply_policies, ['silver'])
  t.equal(third.identities.isKept('default', 'both-1'), true)
  t.equal(third.identities.isKept('default', 'nobody'), false)
  t.equal(third.identities.isKept('elsewhere', 'both-1'), false)
  await written()
  t.equal(medium.commits.length, before, 'reading writes nothing')
  t.same([...other.log.lines, ...third.log.lines], [])
})

t.test('a key that somebody made is the session: its own rights, never written', async t => {
  const { clock, medium, identities, identity, kept, written } = await start(t)
  const key = {
    org_id: 'default',
    alias: 'by hand',
    expires: clock.now() / 1000 + 100,
    access_rights: { b: { api_id: 'b', api_name: 'b', versions: ['Default'] } }
  }
  const id = customId('default', md5('eve'))
  const body = { name: md5('eve'), generated: false, key }
  await medium.real.commit([{ kind: 'key', id, org: 'default', body }])
  const own = identities.session(identity('eve', { policies: null })) as Session
  t.ok(own.grant('b'))
  t.equal(own.proof, 'token', 'it stays a token of its own')
  t.equal(own.expiresMs, clock.now() + 100_000, 'no token prolongs it')
  const gold = identities.session(identity('eve')) as Session
  t.ok(gold.grant('a'), 'the policies of a token count')
  t.equal(
    identities.session(identity('eve', { policies: null })),
    identities.session(identity('eve', { policies: null }))
  )
  t.notOk((identities.session(identity('eve', { policies: null })) as Session).grant('a'), 'for its callers alone')
  t.notOk((identities.session(identity('eve', { areDefaults: true })) as Session).grant('a'), 'defaults are for others')
  await written()
  t.same(kept('eve')!.body, body)
  await clock.move(101_000)
  t.ok(clock.now() >= (identities.session(identity('eve')) as Session).expiresMs, 'an expired key stays expired')
})

t.test('a key that counts as deleted makes room for a session', async t => {
  const { clock, medium, identities, identity, kept, written } = await start(t)
  const key = {
    org_id: 'default',
    session_lifetime: 10,
    last_updated: String(clock.now() / 1000 - 11),
    access_rights: {}
  }
  const id = customId('default', md5('eve'))
  await medium.real.commit([{ kind: 'key', id, org: 'default', body: { name: md5('eve'), generated: false, key } }])
  t.equal((identities.session(identity('eve')) as Session).proof, 'identity')
  await written()
  t.match(kept('eve')!, { rev: 2, body: { isIdentity: true, key: { apply_policies: ['gold'] } } })
})

t.test('what is changed elsewhere counts for the next request', async t => {
  const { medium, identities, identity, kept, written, changes } = await start(t)
  const tell = (sequence: number, deleted = false) =>
    changes.publish([{ sequence, kind: 'key', id: customId('default', md5('ada')), deleted }])
  identities.session(identity('ada'))
  await written()
  const { id, org, body } = kept('ada')!
  const off = { ...body, key: { ...body.key, is_inactive: true } }
  await tell(await medium.real.commit([{ kind: 'key', id, org, body: off }]))
  t.equal(
    (identities.session(identity('ada')) as Session).inactive,
    true,
    'switched off, although its policies are not'
  )
  await tell(await medium.real.commit([{ kind: 'key', id, body: null }]), true)
  t.equal((identities.session(identity('ada')) as Session).inactive, false, 'deleted: made anew')
  await written()
  t.equal(kept('ada')!.rev, 1)
  const reads = medium.reads
  await changes.publish(null)
  t.ok(isSession(identities.session(identity('ada'))))
  t.equal(medium.reads, reads + 1, 'when everything may have changed it is read again')
  await changes.publish([{ sequence: 0, kind: 'key', id: '*', deleted: false }])
  identities.session(identity('ada'))
  t.equal(medium.reads, reads + 2)
})

t.test('requests that wait for the store wait for one look; what changes meanwhile is not remembered', async t => {
  const { medium, identities, identity, changes } = await start(t)
  const { promise, resolve } = Promise.withResolvers<void>()
  medium.gate = promise
  const waiting = [
    identities.session(identity('ada')),
    identities.session(identity('ada')),
    identities.session(identity('bob'))
  ]
  t.equal(medium.reads, 2)
  const id = customId('default', md5('bob'))
  const body = {
    name: md5('bob'),
    generated: false,
    isIdentity: true,
    key: { is_inactive: true, apply_policies: ['gold'] }
  }
  const sequence = await medium.real.commit([{ kind: 'key', id, org: 'default', body }])
  await changes.publish([{ sequence, kind: 'key', id, deleted: false }])
  resolve()
  const [one, two] = await Promise.all(waiting)
  t.equal(one, two)
  medium.gate = null
  t.equal(identities.session(identity('ada')), one)
  t.equal((identities.session(identity('bob')) as Session).inactive, true)
})

t.test('with the store away, sessions in memory go on; others might be switched off', async t => {
  const { clock, medium, identities, identity, kept, written, log } = await start(t)
  const known = identities.session(identity('ada'))
  await written()
  const off = {
    name: md5('bob'),
    generated: false,
    isIdentity: true,
    key: { is_inactive: true, apply_policies: ['gold'] }
  }
  await medium.real.commit([{ kind: 'key', id: customId('default', md5('bob')), org: 'default', body: off }])
  medium.away = true
  await clock.move(1000)
  t.equal(identities.session(identity('ada', { policies: null, until: 0 })), known)
  for (const policies of [['gold'], null])
    t.throws(() => identities.session(identity('bob', { policies })), { message: 'away' }, String(policies))
  t.throws(() => identities.isKept('default', 'cid'), { message: 'away' })
  t.equal(identities.isKept('default', 'ada'), true)
  t.ok(isSession(identities.session(identity('ada', { until: clock.now() + 90 * MINUTE }))))
  await written()
  await clock.move(3000)
  t.equal(log.lines.length, 1, 'told once')
  medium.away = false
  t.equal((identities.session(identity('bob')) as Session).inactive, true, 'asked again at once')
  await clock.move(3000)
  await written()
  t.equal(kept('ada')!.rev, 2)
  t.equal(log.lines.at(-1)!.level, 'info')
})

t.test('a store that is found away while a request waits for it', async t => {
  const { medium, identities, identity, kept, written } = await start(t)
  const { promise, reject } = Promise.withResolvers<void>()
  medium.gate = promise
  const waiting = [
    identities.session(identity('ada')),
    identities.session(identity('ada')),
    identities.session(identity('bob', { policies: null })),
    identities.isKept('default', 'cid')
  ].map(answer => t.rejects(answer as Promise<unknown>, { message: 'away' }))
  reject(new Unavailable('away'))
  await Promise.all(waiting)
  medium.gate = null
  t.ok(isSession(identities.session(identity('ada'))))
  await written()
  t.ok(kept('ada'), 'it is kept once the store can tell')
})

t.test('the memory is bounded; what waits is written when the gateway stops', async t => {
  const { medium, identities, identity, kept, clock } = await start(t, { most: 10 })
  const first = identities.session(identity('n0'))
  for (let n = 1; n < 1200; n++) identities.session(identity(`n${n}`))
  await identities.close()
  for (const n of [0, 599, 1199]) t.ok(kept(`n${n}`), `n${n}`)
  t.ok(medium.commits.every(writes => writes.length <= 500))
  t.not(process(t, medium, clock).identities.session(identity('n0')), first)
})

t.test('names that hash alike are nobody’s', async t => {
  const { identities, identity } = await start(t)
  t.equal(message(identities.session(identity('a\ud800'))), 'no suitable claims for user ID were found')
  t.ok(isSession(identities.session(identity('ü\u0000🂡'))))
  const long = 'x'.repeat(3000)
  const session = identities.session(identity(long)) as Session
  t.equal(session.hash, customId('default', md5(long)))
  t.equal(session.key.alias!.length, 1024)
  t.equal(identities.session(identity(long)), session)
  t.not(identities.session(identity(`${long}y`)), session)
})

t.test('sessions that are over are deleted; what somebody has changed stays', async t => {
  const { clock, medium, identities, identity, kept, written } = await start(t)
  const hour = { ms: 60 * MINUTE, respectsValidity: false }
  const rows: [name: string, given: Partial<Identity>][] = [
    ['short', { until: clock.now() + MINUTE }],
    ['long', { until: clock.now() + 24 * 60 * MINUTE }],
    ['never', { until: Number.POSITIVE_INFINITY }],
    ['kept longer', { until: clock.now() + MINUTE, lifetime: hour }],
    ['kept shorter', { until: clock.now() + 600 * MINUTE, lifetime: { ...hour, ms: MINUTE } }],
    ['kept as long', { until: clock.now() + 600 * MINUTE, lifetime: { ms: MINUTE, respectsValidity: true } }],
    ['changed', { until: clock.now() + MINUTE }]
  ]
  for (const [name, given] of rows) identities.session(identity(name, given))
  await written()
  const { id, org, body } = kept('changed')!
  await medium.real.commit([{ kind: 'key', id, org, body: { ...body, key: { ...body.key, is_inactive: true } } }])
  const hand = { name: 'hand', generated: false, key: { expires: 1, org_id: 'default' } }
  await medium.real.commit([{ kind: 'key', id: customId('default', 'hand'), org: 'default', body: hand }])
  const left = () => rows.map(([name]) => name).filter(name => kept(name) !== null)
  await clock.move(9 * MINUTE)
  t.equal(left().length, 7, 'at most once in 10 minutes')
  await clock.move(2 * MINUTE)
  await written()
  t.same(left(), ['long', 'never', 'kept longer', 'kept as long', 'changed'])
  for (let n = 0; n < 7; n++) {
    await clock.move(10 * MINUTE)
    await written()
  }
  t.same(left(), ['long', 'never', 'kept as long', 'changed'])
  t.ok(await medium.real.get('key', customId('default', 'hand')), 'keys of others are not looked at')
})

t.test('a session is deleted a minute behind its end at the earliest', async t => {
  const { clock, identities, identity, kept, written } = await start(t)
  const begin = clock.now()
  identities.session(identity('over', { until: begin + 8.9 * MINUTE }))
  identities.session(identity('just over', { until: begin + 9.5 * MINUTE }))
  await clock.move(10.5 * MINUTE)
  await written()
  t.equal(kept('over'), null)
  t.ok(kept('just over'))
})

t.test('a session in use with a lifetime is written again before it passes', async t => {
  const { clock, identities, identity, kept, written } = await start(t)
  const given = { until: Number.POSITIVE_INFINITY, lifetime: { ms: 10 * MINUTE, respectsValidity: false } }
  for (let minute = 0; minute < 30; minute++) {
    identities.session(identity('ada', given))
    await clock.move(MINUTE)
  }
  await written()
  const { rev, body } = kept('ada')!
  t.ok(rev >= 5 && rev <= 7, `${rev} writes in half an hour`)
  t.equal(body.key.session_lifetime, 600)
})
