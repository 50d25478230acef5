import t, { type Test } from 'tap'
import { api, withKey } from '../helpers/gateway.ts'
import { folder, launch } from '../helpers/process.ts'
import { upstream } from '../helpers/upstream.ts'

t.setTimeout(200_000)

/** Gateways that live side by side, each with a store of its own, and how often each is killed. */
const GATEWAYS = 2
const ROUNDS = 4
const WRITERS = 4

/** What the interface has said yes to: each path with the text that reads back, or null once it is deleted. */
type Acknowledged = Map<string, string | null>

t.test('nothing acknowledged is lost on kill -9, however often', async t => {
  const up = await upstream(t)
  await Promise.all(Array.from({ length: GATEWAYS }, () => killed(t, up.url)))
})

async function killed(t: Test, upstream: string): Promise<void> {
  const cwd = folder(t)
  const acknowledged: Acknowledged = new Map()
  const rights = { access_rights: { quota: { api_id: 'quota', api_name: 'quota', versions: ['Default'] } } }
  let quotaKey = ''
  let used = 0
  for (let round = 0; round < ROUNDS; round++) {
    const process = launch(t, { cwd })
    const url = await process.ready
    if (round === 0) {
      await process.svc('POST', '/svc/apis/oas', api('quota', upstream, { server: withKey }))
      const quota = { quota_max: 1_000_000, quota_renewal_rate: 3600, ...rights }
      quotaKey = (await process.svc('POST', '/svc/keys/create', quota)).body.key
    } else {
      const { body } = await process.svc('GET', `/svc/keys/${quotaKey}`)
      const counted = 1_000_000 - body.quota_remaining
      // What was counted more than a second (and its commit) before the kill is there, and nothing is counted twice.
      t.ok(counted >= used, `${counted} of at least ${used} are counted`)
    }
    // The writers of a round touch nothing of those before it.
    const before = [...acknowledged]
    let killed = false
    const progress = { writes: 0 }
    const done = Array.from({ length: WRITERS }, async (_, writer) => {
      for (let n = 0; !killed; n++) {
        try {
          await write(process, acknowledged, `r${round}w${writer}n${n}`)
          progress.writes++
        } catch (cause) {
          if (!killed) throw cause
        }
      }
    })
    // A span in which requests are counted, then one that the ledger has to write them in.
    const headers = { Authorization: quotaKey }
    for (let i = 0; i < 20; i++) await (await fetch(`${url}/quota/`, { headers })).text()
    const from = Date.now()
    for (const [path, expected] of before) {
      const { status, body } = await process.svc('GET', path)
      if (expected === null ? status !== 404 : status !== 200 || !JSON.stringify(body).includes(expected))
        t.fail(`round ${round}: ${path} is ${status}, expected ${expected}`)
    }
    while (Date.now() - from < 2_500 || progress.writes < 50) await new Promise(resolve => setTimeout(resolve, 5))
    used += 20
    for (let i = 0; i < 5; i++) await (await fetch(`${url}/quota/`, { headers })).text()
    killed = true
    process.child.kill('SIGKILL')
    t.equal(await process.ended, null)
    await Promise.all(done)
  }
  t.ok(acknowledged.size > 300)
}

/** One of each kind is created, changed, and of every third name deleted. */
async function write(process: ReturnType<typeof launch>, acknowledged: Acknowledged, name: string): Promise<void> {
  const rights = { quota: { api_id: 'quota', api_name: 'quota', versions: ['Default'] } }
  const calls: [method: string, path: string, read: string, body: unknown, expected: string | null][] = [
    ['POST', `/svc/keys/${name}`, `/svc/keys/${name}`, { rate: 1, per: 1, access_rights: rights }, '"rate":1'],
    ['PUT', `/svc/keys/${name}`, `/svc/keys/${name}`, { rate: 7, per: 1, access_rights: rights }, '"rate":7'],
    ['POST', '/svc/policies', `/svc/policies/${name}`, { id: name, name, rate: 5, per: 1, active: true }, '"rate":5'],
    ['POST', '/svc/apis/oas', `/svc/apis/oas/${name}`, api(name, 'http://127.0.0.1:1'), `"id":"${name}"`]
  ]
  if (name.endsWith('3')) calls.push(['DELETE', `/svc/keys/${name}`, `/svc/keys/${name}`, undefined, null])
  for (const [method, path, read, body, expected] of calls) {
    // Unknown until it is answered: a kill may come between the commit and its answer.
    acknowledged.delete(read)
    const answer = await process.svc(method, path, body)
    if (answer.status !== 200) throw new Error(`${method} ${path}: ${answer.status} ${JSON.stringify(answer.body)}`)
    acknowledged.set(read, expected)
  }
}
