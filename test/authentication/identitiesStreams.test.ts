import t, { type Test } from 'tap'
import { gateway, type TestGateway } from '../helpers/gateway.ts'
import { soon } from '../helpers/soon.ts'
import { post, type SseClient, sse, streamsOn, until } from '../helpers/streamClients.ts'
import { jwtApi, md5, policy, signed } from './withTokens.ts'

/** Connections of callers with tokens: what ends them, and what does not. */

const in_ = (seconds: number) => Math.floor(Date.now() / 1000) + seconds

async function start(t: Test) {
  const document: any = jwtApi('s', { policyFieldName: 'pol', defaultPolicies: ['gold'] })
  const at = { addresses: ['memory://identities'] }
  document['x-svc-streaming'] = {
    streams: {
      in: { input: { http_server: { path: '/in' } }, output: { kafka: { ...at, topic: 'x' } } },
      out: {
        input: { kafka: { ...at, topics: ['x'], consumer_group: '$svc_context.request_id' } },
        output: { http_server: { stream_path: '/sse' } }
      }
    }
  }
  delete document['x-svc-api-gateway'].upstream.url
  const gw = await gateway(t, { settings: streamsOn(), apis: [document] })
  await policy(gw, 'gold', ['s'])
  await policy(gw, 'silver', ['s'])
  const bearer = (claims: Record<string, unknown>) => ({
    Authorization: `Bearer ${signed({ exp: in_(600), ...claims })}`
  })
  const open = (claims: Record<string, unknown>) => sse(t, gw, '/s/sse', bearer(claims))
  const kept = (sub: string, pol: string) =>
    soon(t, `${sub} is kept with ${pol}`, 200, async () => {
      const { status, body } = await gw.svc('GET', `/svc/keys/${md5(sub)}`)
      return { status: status === 200 && body.apply_policies[0] === pol ? 200 : 404 }
    })
  return { gw, bearer, open, kept }
}

/** A connection is looked at within 250 ms, all of one look together: another caller's has ended, so that look is over. */
async function looked(
  { gw, open, kept }: Awaited<ReturnType<typeof start>>,
  name = `marker-${Math.random()}`
): Promise<void> {
  const marker = await open({ sub: name })
  await kept(name, 'gold')
  await gw.svc('DELETE', `/svc/keys/${md5(name)}`)
  await marker.ended
}

const isOpen = async (client: SseClient) =>
  (await Promise.race([client.ended.then(() => false), new Promise(resolve => setImmediate(resolve, true))])) === true

t.test('connections of one subject with tokens of different policies and ends do not end each other', async t => {
  const all = await start(t)
  const { gw, bearer, open, kept } = all
  const gold = await open({ sub: 'ada', pol: 'gold' })
  await kept('ada', 'gold')
  const silver = await open({ sub: 'ada', pol: 'silver', exp: in_(1200) })
  await kept('ada', 'silver')
  await looked(all)
  t.ok(await isOpen(gold))
  const again = await open({ sub: 'ada', pol: 'gold', exp: in_(900) })
  await kept('ada', 'gold')
  await looked(all)
  // Whatever changes elsewhere makes all of them be looked at.
  await policy(gw, 'bronze', ['s'])
  await looked(all)
  for (const [name, client] of Object.entries({ gold, silver, again })) t.ok(await isOpen(client), name)
  await post(gw, '/s/in', 'x', bearer({ sub: 'bob' }))
  t.same(await Promise.all([gold, silver, again].map(client => client.until(1))), [['x'], ['x'], ['x']])
})

t.test('a change of a policy ends the connections that were let in with it, and no others', async t => {
  const all = await start(t)
  const { gw, open, kept } = all
  const gold = await open({ sub: 'ada', pol: 'gold' })
  await kept('ada', 'gold')
  const silver = await open({ sub: 'ada', pol: 'silver' })
  await kept('ada', 'silver')
  const { body } = await gw.svc('GET', '/svc/policies/gold')
  t.equal((await gw.svc('PUT', '/svc/policies/gold', { ...body, rate: 1 })).status, 200)
  await gold.ended
  await looked(all)
  t.ok(await isOpen(silver))
  t.equal((await gw.svc('DELETE', '/svc/policies/silver')).status, 200)
  await silver.ended
})

t.test('who is switched off, deleted or at the end of the token is sent away', async t => {
  const { gw, open, kept } = await start(t)
  const change = async (sub: string, run: (gw: TestGateway, id: string) => Promise<{ status: number }>) => {
    // The second token has left other policies in the store.
    const clients = [await open({ sub, pol: 'gold' }), await open({ sub, pol: 'silver' })]
    await kept(sub, 'silver')
    t.equal((await run(gw, md5(sub))).status, 200)
    await until(async () => !(await isOpen(clients[0]!)) && !(await isOpen(clients[1]!)), `${sub} is sent away`)
    t.match(clients[0]!.events, [{ event: 'svc-error', data: /"key"/ }])
  }
  await change('off', async (gw, id) => {
    const { body } = await gw.svc('GET', `/svc/keys/${id}`)
    return gw.svc('PUT', `/svc/keys/${id}`, { ...body, is_inactive: true })
  })
  await change('deleted', (gw, id) => gw.svc('DELETE', `/svc/keys/${id}`))
  const [ends, stays] = [await open({ sub: 'two', exp: in_(1) }), await open({ sub: 'two', exp: in_(600) })]
  await ends.ended
  t.ok(await isOpen(stays), 'the other token of the same caller')
})

t.test('a key that somebody made: tokens with other policies than its own keep their connections', async t => {
  const all = await start(t)
  const { gw, open } = all
  t.equal((await gw.svc('POST', `/svc/keys/${md5('eve')}`, { apply_policies: ['silver'] })).status, 200)
  const eve = await open({ sub: 'eve', pol: 'gold' })
  await policy(gw, 'bronze', ['s'])
  await looked(all)
  t.ok(await isOpen(eve))
  t.equal((await gw.svc('DELETE', `/svc/keys/${md5('eve')}`)).status, 200)
  await eve.ended
})
