import t from 'tap'
import { lifetimeSeconds } from '../../config/duration.ts'
import { handClock } from '../helpers/clock.ts'
import { api, gateway, rights } from '../helpers/gateway.ts'

const readable: [string, number][] = [
  ['5h,34m,30s', 20_070],
  ['5h34m30s', 20_070],
  ['5h 34m 30s', 20_070],
  ['5h, 34m,  30s', 20_070],
  ['30s,34m,5h', 20_070],
  ['1M', 30 * 86_400],
  ['1m', 60],
  ['1M1w1d1h1m1s', 2_592_000 + 604_800 + 86_400 + 3661],
  ['0s', 0],
  ['90m', 5400],
  ['007s', 7],
  ['9007199254740991s', Number.MAX_SAFE_INTEGER]
]
const nonsense = [
  '',
  ' ',
  '5',
  '5 h',
  'h',
  '5H',
  '5S',
  '1D',
  '5h5h',
  '5h,,3m',
  '5h,',
  ',5h',
  ' 5h',
  '5h ',
  '5h\n3m',
  '-5h',
  '+5h',
  '1.5h',
  '5h;3m',
  '5 hours',
  '1e3s',
  '0x5s',
  '٥h',
  '9007199254740992s',
  '9999999999999999M',
  '99999999999999999s',
  `${'1h,'.repeat(50_000)}1s`
]

t.test('readable lifetimes are seconds, each unit once', async t => {
  for (const [text, seconds] of readable) t.equal(lifetimeSeconds(text), seconds, text)
  for (const text of nonsense) t.equal(lifetimeSeconds(text), null, text.slice(0, 20))
})

t.test('every interface takes lifetimes in both forms and answers seconds', async t => {
  const clock = handClock()
  const gw = await gateway(t, { clock, apis: [api('a1', 'svc://echo')] })
  const now = clock.now() / 1000
  const given = { ...rights('a1'), expires: '5h,34m,30s', session_lifetime: '1M', post_expiry_grace_period: '2d 1h' }
  const expected = { expires: now + 20_070, session_lifetime: 2_592_000, post_expiry_grace_period: 176_400 }
  await gw.api('POST', '/api/keys/alice', given)
  await gw.svc('POST', '/svc/keys/bobby', given)
  for (const name of ['alice', 'bobby']) {
    t.match((await gw.api('GET', `/api/keys/${name}`)).body.data, expected)
    t.match((await gw.svc('GET', `/svc/keys/${name}`)).body, expected)
    const put = { ...rights('a1'), expires: now + 7, session_lifetime: 60, post_expiry_grace_period: -1 }
    await gw.api('PUT', `/api/keys/${name}`, put)
    t.match((await gw.svc('GET', `/svc/keys/${name}`)).body, put)
    await gw.svc('PUT', `/svc/keys/${name}`, { ...rights('a1'), expires: '1w' })
    t.match((await gw.svc('GET', `/svc/keys/${name}`)).body, { expires: now + 604_800 })
  }
  t.equal((await gw.svc('POST', '/svc/keys/preview', { ...rights('a1'), expires: '1h' })).body.expires, now + 3600)

  for (const member of ['expires', 'session_lifetime', 'post_expiry_grace_period']) {
    for (const wrong of [...nonsense.slice(0, 12), 1.5, null, true, ['1h'], { h: 1 }, 2 ** 60]) {
      const told = await gw.api('POST', '/api/keys', { ...rights('a1'), [member]: wrong })
      t.match(
        told,
        { status: 400, body: { faults: [{ pointer: `/${member}` }] } },
        `${member} ${JSON.stringify(wrong)}`
      )
    }
  }
})

t.test('lifetimes of policies: stored ones and those that a key carries', async t => {
  const clock = handClock()
  const gw = await gateway(t, { clock, apis: [api('a1', 'svc://echo')] })
  const now = clock.now() / 1000
  const policy = { id: 'p1', key_expires_in: '1h,30m', post_expiry_grace_period: '1d', ...rights('a1') }
  t.equal((await gw.svc('POST', '/svc/policies', policy)).status, 200)
  t.match((await gw.svc('GET', '/svc/policies/p1')).body, { key_expires_in: 5400, post_expiry_grace_period: 86_400 })
  t.equal((await gw.api('POST', '/api/keys', { apply_policies: ['p1'] })).body.data.expires, now + 5400)
  const inline = await gw.api('POST', '/api/keys', { meta_data: { policies: [policy] } })
  t.equal(inline.body.data.expires, now + 5400)
  for (const member of ['key_expires_in', 'post_expiry_grace_period'])
    t.match(await gw.svc('POST', '/svc/policies', { ...policy, id: 'p2', [member]: '5x' }), {
      status: 400,
      body: { faults: [{ pointer: `/${member}` }] }
    })
})
