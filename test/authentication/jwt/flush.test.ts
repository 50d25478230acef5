import { once } from 'node:events'
import { Agent, type IncomingMessage, request } from 'node:http'
import t, { type Test } from 'tap'
import { gateway, type TestGateway } from '../../helpers/gateway.ts'
import { postgres } from '../../helpers/postgres.ts'
import { soon } from '../../helpers/soon.ts'
import { upstream } from '../../helpers/upstream.ts'
import { jwtApi, policy, put } from './apis.ts'
import { ed25519, jwk, signed } from './signing.ts'

/** Forgetting key sets reaches every thread before the call is answered, and other processes within a second. */

t.setTimeout(60_000)

const pair = ed25519()
const token = signed({ alg: 'EdDSA', kid: 'one' }, { sub: 'ann' }, pair.privateKey)

async function api(t: Test, gw: TestGateway) {
  const now: { keys: Record<string, unknown>[] } = { keys: [jwk(pair, { kid: 'one' })] }
  const target = await upstream(t, (req, res) => void res.end(req.url === '/jwks' ? JSON.stringify(now) : 'ok'))
  const jwksURIs = [{ url: `${target.url}/jwks`, cacheTimeout: 3600 }]
  await policy(gw, 'open', ['shop'])
  await put(gw, jwtApi('shop', target.url, { signingMethod: 'eddsa', jwksURIs, defaultPolicies: ['open'] }))
  return now
}

/** On a connection of its own, which belongs to the thread that took it. */
function connection(t: Test, gw: TestGateway): () => Promise<number> {
  const agent = new Agent({ keepAlive: true, maxSockets: 1 })
  t.teardown(() => agent.destroy())
  return async () => {
    const call = request(`${gw.url}/shop/`, { agent, headers: { Authorization: `Bearer ${token}` } }).end()
    const [answer] = (await once(call, 'response')) as [IncomingMessage]
    answer.resume()
    await once(answer, 'end')
    return answer.statusCode!
  }
}

t.test('on all threads', async t => {
  const gw = await gateway(t, { settings: { gateway: { workers: 2 } } })
  const now = await api(t, gw)
  const calls = Array.from({ length: 32 }, () => connection(t, gw))
  const everywhere = () => Promise.all(calls.map(call => call())).then(all => [...new Set(all)])
  t.same(await everywhere(), [200])
  for (const path of ['/svc/cache/jwks/shop', '/svc/cache/jwks']) {
    now.keys = []
    t.same(await everywhere(), [200], 'remembered')
    t.equal((await gw.svc('DELETE', path)).status, 200)
    t.same(await everywhere(), [403])
    now.keys = [jwk(pair, { kid: 'one' })]
    await gw.svc('DELETE', '/svc/cache/jwks')
    t.same(await everywhere(), [200])
  }
})

t.test('on another process', async t => {
  const server = await postgres(t, { version: 17 })
  const settings = { storage: { documents: { type: 'postgres', url: await server.database(), pool_size: 4 } } }
  const [one, two] = [await gateway(t, { settings }), await gateway(t, { settings })]
  const now = await api(t, one)
  const call = (gw: TestGateway) => () => gw.get('/shop/', { Authorization: token })
  await soon(t, 'the API is there', 200, call(two))
  now.keys = []
  t.equal((await one.svc('DELETE', '/svc/cache/jwks/shop')).status, 200)
  t.equal((await call(one)()).status, 403)
  await soon(t, 'forgotten there, too', 403, call(two))
})
