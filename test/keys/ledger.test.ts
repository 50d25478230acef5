import t from 'tap'
import { quotaCharge } from '../../gateway/counters/charges.ts'
import { countersMemory } from '../../gateway/counters/countersMemory.ts'
import { Ledger } from '../../gateway/keys/ledger.ts'
import { type Store, Unavailable } from '../../gateway/store/store.ts'
import { storeMemory } from '../../gateway/store/storeMemory.ts'
import { handClock, quiet } from './gate.ts'

const charge = (id: string, seconds = 60) => quotaCharge(id, { quota_max: 5, quota_renewal_rate: seconds })!

async function start(store: Store, clock = handClock(), log = quiet) {
  const counters = countersMemory({ clock })
  const ledger = new Ledger({ counters, store, clock, log })
  await ledger.start()
  return { counters, ledger, clock, left: (id: string) => counters.look([charge(id)]).standings[0]!.remaining }
}

const saved = async (store: Store) =>
  (await store.list('ledger', { page: -1, size: 1 })).documents.map(({ id }) => id).sort()

/** Turns of the event loop, until what the clock set off is done. */
async function until(done: () => Promise<boolean>) {
  while (!(await done())) await new Promise(setImmediate)
}

t.test('counts are saved once a second and read back at start', async t => {
  const store = storeMemory()
  const { counters, clock } = await start(store)
  counters.charge([charge('a')])
  counters.charge([charge('a')])
  t.strictSame(await saved(store), [])
  clock.move(1000)
  await until(async () => (await saved(store)).length === 1)
  counters.charge([charge('a')])
  clock.move(1000)
  await until(async () => (await store.sequence()) === 2)
  const second = await start(store, clock)
  t.equal(second.left('a'), 2)
  await second.ledger.stop()
})

t.test('a stop saves what was counted last', async t => {
  const store = storeMemory()
  const { counters, ledger, clock } = await start(store)
  counters.charge([charge('a'), charge('b', 0)])
  await ledger.stop()
  const second = await start(store, clock)
  t.equal(second.left('a'), 4)
  t.equal(second.left('b'), 4)
  await second.ledger.stop()
})

t.test('forgotten counters and ended periods leave the store', async t => {
  const store = storeMemory()
  const { counters, clock, ledger } = await start(store)
  counters.charge([charge('forgotten'), charge('short', 5), charge('long', 500), charge('endless', 0)])
  clock.move(1000)
  await until(async () => (await saved(store)).length === 4)
  counters.forget(['forgotten'])
  clock.move(1000)
  await until(async () => (await saved(store)).length === 3)
  for (let i = 0; i < 12; i++) {
    clock.move(1000)
    await new Promise(setImmediate)
    await new Promise(setImmediate)
  }
  await until(async () => (await saved(store)).length === 2)
  t.strictSame(await saved(store), ['endless', 'long'])
  await ledger.stop()
})

t.test('a store that fails is told of once, and gets everything when it is back', async t => {
  const store = storeMemory()
  const { commit } = store
  const errors: string[] = []
  const { counters, clock, ledger } = await start(store, handClock(), { ...quiet, error: msg => void errors.push(msg) })
  let tries = 0
  store.commit = async () => {
    tries++
    throw new Unavailable('disk full')
  }
  counters.charge([charge('a')])
  for (const wanted of [1, 2, 3]) {
    clock.move(1000)
    await until(async () => tries === wanted)
    await new Promise(setImmediate)
  }
  t.strictSame(errors, ['quota counters cannot be saved'])
  store.commit = commit
  counters.charge([charge('b')])
  await ledger.stop()
  t.strictSame(await saved(store), ['a', 'b'])
})

t.test('many counters are saved in several commits', async t => {
  const store = storeMemory()
  const { counters, ledger, clock } = await start(store)
  for (let i = 0; i < 2500; i++) counters.charge([charge(`c${i}`)])
  await ledger.stop()
  t.equal((await saved(store)).length, 2500)
  t.equal(await store.sequence(), 3)
  const second = await start(store, clock)
  t.equal(second.left('c2499'), 4)
  await second.ledger.stop()
})

t.test('a ledger of several processes keeps the highest count, and is asked instead of read', async t => {
  const store = storeMemory()
  const clock = handClock()
  const begin = async () => {
    const counters = countersMemory({ clock })
    const ledger = new Ledger({ counters, store, clock, log: quiet, of: 'all' })
    await ledger.start()
    return { counters, ledger }
  }
  const [a, b] = [await begin(), await begin()]
  for (let i = 0; i < 3; i++) a.counters.charge([charge('x', 500)])
  b.counters.charge([charge('x', 500)])
  await a.ledger.stop()
  await b.ledger.stop()
  t.match(await b.ledger.find('x'), { count: 3 })
  t.equal(await b.ledger.find('y'), null)
  const third = await begin()
  t.equal(third.counters.look([charge('x')]).standings[0]!.remaining, 5, 'nothing is read at start')
  await third.ledger.forget(['x'])
  t.equal(await third.ledger.find('x'), null)
  await third.ledger.stop()
})

t.test(
  'a ledger of several processes keeps a period for a day longer, and finds nothing while the store is away',
  async t => {
    const store = storeMemory()
    const clock = handClock()
    const counters = countersMemory({ clock })
    const ledger = new Ledger({ counters, store, clock, log: quiet, of: 'all' })
    await ledger.start()
    counters.charge([charge('x', 10)])
    clock.move(1000)
    await until(async () => (await saved(store)).length === 1)
    const seconds = async (count: number) => {
      clock.move(count * 1000)
      for (let i = 0; i < 20; i++) await new Promise(setImmediate)
    }
    await seconds(3_600)
    await seconds(70)
    t.strictSame(await saved(store), ['x'])
    await seconds(24 * 3_600)
    await seconds(70)
    t.strictSame(await saved(store), [])
    store.get = () => {
      throw new Unavailable('away')
    }
    t.equal(await ledger.find('x'), null)
    await ledger.stop()
  }
)
