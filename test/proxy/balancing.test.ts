import t, { type Test } from 'tap'
import type { Clock } from '../../config/world.ts'
import { Targets } from '../../gateway/proxy/targets.ts'
import type { Target } from '../../gateway/proxy/upstream.ts'
import { api, gateway } from '../helpers/gateway.ts'
import { upstream } from '../helpers/upstream.ts'

/** Time that the test moves; what waits for it runs in real time, as the gateway's sweeps do. */
function movedClock(): Clock & { move(ms: number): void } {
  let ahead = 0
  return {
    now: () => Date.now() + ahead,
    after(ms, run) {
      const timer = setTimeout(run, ms)
      return () => clearTimeout(timer)
    },
    move(ms) {
      ahead += ms
    }
  }
}

async function named(t: Test, name: string): Promise<string> {
  return (await upstream(t, (_req, res) => void res.end(name))).url
}

const balanced = (targets: { url: string; weight: number }[]) =>
  api('all', '', { upstream: { loadBalancing: { enabled: true, targets } } })

const target = (hostname: string): Target => ({
  tls: null,
  hostname,
  port: 80,
  origin: `http://${hostname}`,
  authority: hostname,
  base: ''
})

t.test('over a round each target gets exactly its weight, and equal ones alternate', async t => {
  const [a, b, c] = [await named(t, 'a'), await named(t, 'b'), await named(t, 'c')]
  const gw = await gateway(t, {
    apis: [
      balanced([
        { url: a, weight: 3 },
        { url: b, weight: 2 },
        { url: c, weight: 1 }
      ])
    ]
  })
  for (let round = 0; round < 3; round++) {
    let got = ''
    for (let i = 0; i < 6; i++) got += await (await gw.get('/all/x')).text()
    t.equal([...got].sort().join(''), 'aaabbc')
  }
})

t.test('equal targets alternate, and a common factor of the weights does not make runs', t => {
  const clock = movedClock()
  const turns = (weights: number[], count: number) => {
    const all = weights.map((weight, i) => ({ target: target(`h${i}`), weight }))
    const targets = new Targets(all, true, clock)
    return Array.from({ length: count }, () => targets.pick()!.hostname.slice(1)).join('')
  }
  t.equal(turns([1, 1], 6), '010101')
  t.equal(turns([50, 50], 6), '010101')
  t.equal(turns([2, 1], 6), turns([200, 100], 6))
  t.equal([...turns([5, 1, 1], 7)].sort().join(''), '0000012')
  t.end()
})

t.test('a target that refuses costs no answer and is passed over for 10 s', async t => {
  const clock = movedClock()
  const up = await named(t, 'up')
  const gw = await gateway(t, {
    clock,
    apis: [
      balanced([
        { url: 'http://127.0.0.1:1', weight: 1 },
        { url: up, weight: 1 }
      ])
    ]
  })
  for (let i = 0; i < 6; i++) t.equal(await (await gw.get('/all/x')).text(), 'up')
  const tries = () => gw.log.lines.filter(({ msg }) => msg === 'upstream failed').length
  t.equal(tries(), 0, 'the second try answered')
  clock.move(10_001)
  for (let i = 0; i < 4; i++) t.equal(await (await gw.get('/all/x')).text(), 'up')
})

t.test('all targets down: 502 at first, 503 while they are passed over, and tried again after 10 s', async t => {
  const clock = movedClock()
  const gw = await gateway(t, {
    clock,
    apis: [
      balanced([
        { url: 'http://127.0.0.1:1', weight: 1 },
        { url: 'http://127.0.0.1:2', weight: 1 }
      ])
    ]
  })
  t.equal((await gw.get('/all/x')).status, 502)
  t.equal(gw.log.lines.filter(({ msg }) => msg === 'upstream failed').length, 1)
  for (let i = 0; i < 3; i++) {
    const answer = await gw.get('/all/x')
    t.equal(answer.status, 503)
    t.equal(answer.headers.get('x-svc-error'), 'hosts_down')
    t.same(await answer.json(), { error: 'all hosts are down' })
  }
  clock.move(10_001)
  t.equal((await gw.get('/all/x')).status, 502)
})

t.test('a target that fails while the others are out is 502, with its line of the log', async t => {
  const clock = movedClock()
  const other = await upstream(t)
  const gw = await gateway(t, {
    clock,
    apis: [
      balanced([
        { url: 'http://127.0.0.1:1', weight: 1 },
        { url: other.url, weight: 1 }
      ])
    ]
  })
  t.equal((await gw.get('/all/x')).status, 200)
  other.server.closeAllConnections()
  await new Promise(resolve => other.server.close(resolve))
  t.equal((await gw.get('/all/x')).status, 502)
  t.equal(gw.log.lines.filter(({ msg }) => msg === 'upstream failed').length, 1)
  t.equal((await gw.get('/all/x')).status, 503)
})
