import type { IncomingMessage, ServerResponse } from 'node:http'
import t, { type Test } from 'tap'
import { changesLocal } from '../../../gateway/changes/changesLocal.ts'
import { type KeySetPlace, type KeySets, KeySetUnavailable } from '../../../gateway/jwks/keySets.ts'
import { openKeySets } from '../../../gateway/jwks/openKeySets.ts'
import { storeMemory } from '../../../gateway/store/storeMemory.ts'
import { handClock } from '../../helpers/clock.ts'
import { collectedLog } from '../../helpers/gateway.ts'
import { upstream } from '../../helpers/upstream.ts'

type Answer = (req: IncomingMessage, res: ServerResponse) => void
const set =
  (...kids: string[]): Answer =>
  (_req, res) =>
    void res.end(JSON.stringify({ keys: kids.map(kid => ({ kid })) }))
const status =
  (code: number, headers: Record<string, string> = {}): Answer =>
  (_req, res) =>
    void res.writeHead(code, headers).end()

/** Key sets over a real server whose answer the test changes, on a clock that it moves. */
async function held(t: Test, answer: Answer, { most = 1_000, stores = storeMemory(), changes = changesLocal() } = {}) {
  const log = collectedLog()
  const clock = handClock()
  const now = { answer }
  const server = await upstream(t, (req, res) => now.answer(req, res))
  const settings = { jwks: { cache: { timeout: 240 } } }
  const sets: KeySets = openKeySets({ store: stores, changes, settings, clock, log, most })
  t.teardown(() => sets.close())
  const place = { url: `${server.url}/jwks?secret=1`, cacheMs: 60_000 }
  const get = async (missing?: string, at: KeySetPlace = place, apiId = 'a') =>
    (await sets.get(apiId, at, missing)).keys.map(({ kid }) => kid)
  /** The kids that come, or the class of what is thrown. */
  const got = (missing?: string, at?: KeySetPlace, apiId?: string) =>
    get(missing, at, apiId).catch(cause => (cause instanceof KeySetUnavailable ? 'unavailable' : cause))
  return { sets, clock, log, server, now, place, got, fetches: () => server.requests.length }
}

t.test('a set is fetched once for those who come together, and counts for its time', async t => {
  const { sets, clock, place, got, fetches, now } = await held(t, set('one'))
  t.same(await Promise.all([got(), got(), got()]), [['one'], ['one'], ['one']])
  t.equal(fetches(), 1)
  const known = sets.get('a', place)
  t.notOk(known instanceof Promise, 'without a promise')
  await clock.move(53_000)
  t.same(await got(), ['one'])
  t.equal(fetches(), 1)
  now.answer = set('two')
  await clock.move(7_000)
  const { epoch } = sets
  t.same(await got(), ['two'])
  t.equal(fetches(), 2)
  t.ok(sets.epoch > epoch, 'other keys raise the epoch')
})

t.test('a set in use is fetched anew shortly before its end, and nobody waits for it', async t => {
  const { sets, clock, place, got, fetches } = await held(t, set('one'))
  await got()
  const first = sets.get('a', place)
  const { epoch } = sets
  await clock.move(55_000)
  t.equal(sets.get('a', place), first)
  while (sets.get('a', place) === first) await new Promise(resolve => setImmediate(resolve))
  t.equal(fetches(), 2)
  const next = await sets.get('a', place)
  t.equal(next.keys, (await first).keys, 'the same keys stay the same objects')
  t.equal(next.until, clock.now() + 60_000)
  t.equal(sets.epoch, epoch)
})

t.test('the settings say how long a set counts where its place does not; a second at least', async t => {
  const { sets, clock, place } = await held(t, set('one'))
  for (const [cacheMs, ms] of [
    [0, 240_000],
    [5_000, 5_000],
    [1, 1_000]
  ] as const) {
    const { until } = await sets.get(`api ${cacheMs}`, { ...place, cacheMs })
    t.equal(until - clock.now(), ms)
  }
})

t.test('each API has its own sets, and only so many are remembered', async t => {
  const { got, fetches } = await held(t, set('one'), { most: 2 })
  await got(undefined, undefined, 'a')
  await got(undefined, undefined, 'b')
  t.equal(fetches(), 2)
  await got(undefined, undefined, 'c')
  await got(undefined, undefined, 'b')
  t.equal(fetches(), 3)
  await got(undefined, undefined, 'a')
  t.equal(fetches(), 4, 'the first had left')
})

t.test('an unknown kid fetches again, at most once in 5 s', async t => {
  const { clock, got, fetches, now } = await held(t, set('one'))
  await got()
  now.answer = set('one', 'two')
  t.same(await Promise.all([got('two'), got('two')]), [
    ['one', 'two'],
    ['one', 'two']
  ])
  t.equal(fetches(), 2)
  for (let i = 0; i < 50; i++) await got(`guess ${i}`)
  t.equal(fetches(), 2)
  await clock.move(4_999)
  await got('three')
  t.equal(fetches(), 2)
  await clock.move(1)
  await got('three')
  t.equal(fetches(), 3)
})

t.test('while the other side is away the old set counts for an hour, and it is asked every 5 s', async t => {
  const { sets, clock, log, got, fetches, now, place } = await held(t, set('one'))
  await got()
  const { epoch } = sets
  now.answer = status(503)
  await clock.move(60_000)
  t.same(await got(), ['one'], 'who comes first waits for the fetch that fails')
  t.equal(fetches(), 2)
  const stale = sets.get('a', place)
  t.notOk(stale instanceof Promise)
  t.equal((await stale).until, clock.now() + 5_000, 'it counts until the next try')
  for (let i = 0; i < 20; i++) await got('unknown')
  t.equal(fetches(), 2)
  await clock.move(5_000)
  t.notOk(sets.get('a', place) instanceof Promise, 'later ones do not wait')
  while (fetches() < 3) await new Promise(resolve => setImmediate(resolve))
  t.equal(sets.epoch, epoch)
  now.answer = set('one')
  await clock.move(3_594_000)
  t.same(await got(), ['one'])
  while (log.lines.length < 2) await new Promise(resolve => setImmediate(resolve))
  t.match(log.lines, [
    { level: 'warn', msg: 'a key set cannot be fetched', api: 'a', url: /\/jwks$/, cause: 'it answers 503' },
    { level: 'info', msg: 'a key set is fetched again' }
  ])
  now.answer = status(500)
  await clock.move(3_660_000)
  t.same(await got(), 'unavailable', 'more than an hour beyond its end')
})

t.test('where nothing is remembered, a failed fetch is repeated once a second', async t => {
  const { clock, got, fetches, now } = await held(t, status(500))
  t.same(await Promise.all([got(), got()]), ['unavailable', 'unavailable'])
  t.same(await got('kid'), 'unavailable')
  t.equal(fetches(), 1)
  now.answer = set('one')
  await clock.move(999)
  t.same(await got(), 'unavailable')
  await clock.move(1)
  t.same(await got(), ['one'])
  t.equal(fetches(), 2)
})

t.test('answers that are no key set', async t => {
  const { log, got, now, clock } = await held(t, status(200))
  for (const [what, answer, cause] of [
    ['no JSON', (_req, res) => void res.end('<html>'), 'it answers no JSON'],
    ['nothing', status(200), 'it answers no JSON'],
    ['null', (_req, res) => void res.end('null'), 'it answers no key set'],
    ['no keys', (_req, res) => void res.end('{"keys":{}}'), 'it answers no key set'],
    ['a list', (_req, res) => void res.end('[]'), 'it answers no key set'],
    ['1 MB and more', (_req, res) => void res.end(`{"keys":["${'x'.repeat(1_000_000)}"]}`), 'it answers more than'],
    ['404', status(404), 'it answers 404'],
    ['204', status(204), 'it answers 204'],
    ['a redirect to nowhere', status(302), 'it answers 302'],
    ['a broken connection', (req: IncomingMessage) => void req.socket.destroy(), 'UND_ERR_SOCKET']
  ] as [string, Answer, string][]) {
    now.answer = answer
    t.equal(await got(), 'unavailable', what)
    t.match(log.lines.at(-1), { level: 'warn', cause: new RegExp(`^${cause}`) }, what)
    now.answer = set('one')
    await clock.move(1_000)
    await got()
    now.answer = answer
    await clock.move(3_660_001)
  }
})

t.test('members of a set that are no objects are left out', async t => {
  const { got } = await held(t, (_req, res) => void res.end('{"keys":[1,null,"x",[],{"kid":"one"}],"more":1}'))
  t.same(await got(), ['one'])
})

t.test('a slow answer is given up after 5 s', async t => {
  const { clock, got, log, now } = await held(t, (_req, res) => void res.writeHead(200).write('{'))
  const waiting = got()
  await clock.waiting(5_000)
  await clock.move(5_000)
  t.equal(await waiting, 'unavailable')
  t.match(log.lines, [{ cause: 'it takes too long' }])
  now.answer = () => {}
  await clock.move(1_000)
  const silent = got()
  await clock.move(5_000)
  t.equal(await silent, 'unavailable')
})

t.test('redirects are followed three times, never to a link-local address, another scheme or a login', async t => {
  const { got, log, now, place, clock, server } = await held(t, set('one'))
  const hops = (count: number): Answer => {
    let left = count
    return (req, res) => (left-- > 0 ? status(307, { location: `/hop/${left}` })(req, res) : set('one')(req, res))
  }
  now.answer = hops(3)
  t.same(await got(undefined, { ...place, cacheMs: 1_000 }, 'three'), ['one'])
  const { port } = server
  for (const [what, answer, cause] of [
    ['four', hops(4), 'it redirects more than 3 times'],
    ['link-local', status(302, { location: 'http://169.254.169.254/' }), 'it is a link-local address'],
    ['in IPv6', status(302, { location: 'http://[fe80::1]/' }), 'it is a link-local address'],
    ['mapped', status(302, { location: 'http://[::ffff:169.254.169.254]/' }), 'it is a link-local address'],
    ['as a number', status(302, { location: 'http://2852039166/' }), 'it is a link-local address'],
    ['file', status(302, { location: 'file:///etc/passwd' }), 'it is no http or https address'],
    ['login', status(302, { location: `http://a:b@127.0.0.1:${port}/` }), 'its address holds a user or password']
  ] as const) {
    now.answer = answer
    t.equal(await got(undefined, place, what), 'unavailable', what)
    t.match(log.lines.at(-1), { cause }, what)
  }
  for (const url of ['http://169.254.169.254/', 'http://[fe80::1%25eth0]/', 'https://0xa9fea9fe/jwks'])
    t.equal(await got(undefined, { url, cacheMs: 0 }, url), 'unavailable', url)
  await clock.move(1)
})

t.test('a flush reaches every holder of the same changes, and what is on its way is not kept', async t => {
  const changes = changesLocal()
  const stores = storeMemory()
  const one = await held(t, set('one'), { changes, stores })
  const two = await held(t, set('one'), { changes, stores })
  const counts = () => [one.fetches(), two.fetches()]
  for (const each of [one, two]) for (const id of ['a', 'b']) await each.got(undefined, undefined, id)
  t.same(counts(), [2, 2])
  const epochs = [one.sets.epoch, two.sets.epoch]
  await one.sets.forget('a')
  t.ok(one.sets.epoch > epochs[0]! && two.sets.epoch > epochs[1]!)
  for (const each of [one, two]) for (const id of ['a', 'b']) await each.got(undefined, undefined, id)
  t.same(counts(), [3, 3])
  await two.sets.forgetAll()
  for (const each of [one, two]) for (const id of ['a', 'b']) await each.got(undefined, undefined, id)
  t.same(counts(), [5, 5])
  await changes.publish(null)
  await one.got()
  t.same(counts(), [6, 5], 'when anything may have changed')

  let release = (): void => {}
  one.now.answer = (req, res) => {
    release = () => set('old')(req, res)
  }
  const early = one.got(undefined, undefined, 'slow')
  while (one.fetches() < 7) await new Promise(resolve => setImmediate(resolve))
  await one.sets.forget('slow')
  one.now.answer = set('new')
  t.same(await one.got(undefined, undefined, 'slow'), ['new'])
  release()
  t.same(await early, ['old'])
  t.same(await one.got(undefined, undefined, 'slow'), ['new'])
  t.equal(await stores.sequence(), 3)
  t.equal((await stores.list('flush', { page: -1, size: 1 })).total, 3, 'one document an API, and one for all')
  await one.sets.forget('a')
  t.equal((await stores.list('flush', { page: -1, size: 1 })).total, 3)
})
