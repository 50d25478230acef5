import t from 'tap'
import { api, gateway, withKey } from '../helpers/gateway.ts'
import { ask } from './ask.ts'

const over = (id: string, access: object) =>
  api(id, 'svc://echo', { server: { ipAccessControl: { enabled: true, ...access }, ...withKey } })

t.test('addresses and CIDRs are allowed and blocked, before any look at the key', async t => {
  const gw = await gateway(t, {
    settings: { gateway: { trusted_proxies: ['127.0.0.1'] } },
    apis: [
      over('allow', { allow: ['10.0.0.0/8', '192.0.2.7', '2001:db8::/32'] }),
      over('block', { block: ['10.0.0.0/8', '2001:db8::1'] }),
      over('both', { allow: ['10.0.0.0/8'], block: ['10.1.0.0/16'] }),
      over('mapped', { allow: ['::ffff:192.0.2.7'] }),
      over('none', {})
    ]
  })
  const cases: [path: string, client: string, passes: boolean][] = [
    ['/allow/', '10.200.0.1', true],
    ['/allow/', '192.0.2.7', true],
    ['/allow/', '192.0.2.8', false],
    ['/allow/', '2001:db8::5', true],
    ['/allow/', '2001:db9::5', false],
    ['/allow/', '::ffff:10.0.0.1', true],
    ['/allow/', 'nonsense', false],
    ['/allow/', '', false],
    ['/block/', '10.0.0.1', false],
    ['/block/', '::ffff:10.0.0.1', false],
    ['/block/', '2001:db8::1', false],
    ['/block/', '2001:DB8:0::1', false],
    ['/block/', '11.0.0.1', true],
    ['/both/', '10.0.0.1', true],
    ['/both/', '10.1.0.1', false],
    ['/both/', '11.0.0.1', false],
    ['/mapped/', '192.0.2.7', true],
    ['/mapped/', '192.0.2.8', false],
    ['/none/', '192.0.2.8', true]
  ]
  for (const [path, client, passes] of cases) {
    const { status, text, headers } = await ask(gw, path, { headers: { 'X-Forwarded-For': client } })
    // Whoever is let through is told that a key is missing.
    t.equal(status, passes ? 401 : 403, `${path} ${client}`)
    if (passes) continue
    t.equal(text, '{"error":"access from this IP has been disallowed"}')
    t.equal(headers['x-svc-error'], 'ip_disallowed')
  }
})

t.test('what a client that is no trusted proxy says about its address counts for nothing', async t => {
  const gw = await gateway(t, {
    apis: [over('allow', { allow: ['10.0.0.1'] }), over('block', { block: ['127.0.0.0/8'] })]
  })
  for (const path of ['/allow/', '/block/'])
    for (const name of ['X-Forwarded-For', 'X-Real-Ip', 'Forwarded'])
      t.equal(
        (await ask(gw, path, { headers: { [name]: name === 'Forwarded' ? 'for=10.0.0.1' : '10.0.0.1' } })).status,
        403
      )
})
