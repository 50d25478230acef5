import fc from 'fast-check'
import t from 'tap'
import type { Hub, Item } from '../../../streams/hub/hub.ts'
import { bytesOf, Listener, LogBroker, stand, turns, until } from './broadcastFakes.ts'

type Deed =
  | { readonly deed: 'put'; readonly partition: number; readonly count: number }
  | { readonly deed: 'room'; readonly person: number; readonly room: number }
  | { readonly deed: 'again'; readonly person: number; readonly hub: number }
  | { readonly deed: 'write'; readonly person: number; readonly count: number }
  | { readonly deed: 'move'; readonly ms: number }
  | { readonly deed: 'grow' }
  | { readonly deed: 'turn'; readonly count: number }

const person = fc.nat(5)
const deeds: fc.Arbitrary<Deed[]> = fc.array(
  fc.oneof(
    {
      weight: 5,
      arbitrary: fc.record({
        deed: fc.constant('put' as const),
        partition: fc.nat(3),
        count: fc.integer({ min: 1, max: 30 })
      })
    },
    {
      weight: 4,
      arbitrary: fc.record({ deed: fc.constant('room' as const), person, room: fc.constantFrom(0, 1, 5, 1000) })
    },
    { weight: 3, arbitrary: fc.record({ deed: fc.constant('again' as const), person, hub: fc.nat(1) }) },
    {
      weight: 3,
      arbitrary: fc.record({ deed: fc.constant('write' as const), person, count: fc.integer({ min: 1, max: 40 }) })
    },
    { weight: 1, arbitrary: fc.record({ deed: fc.constant('move' as const), ms: fc.constantFrom(100, 2000, 20_000) }) },
    { weight: 1, arbitrary: fc.record({ deed: fc.constant('grow' as const) }) },
    { weight: 4, arbitrary: fc.record({ deed: fc.constant('turn' as const), count: fc.integer({ min: 1, max: 6 }) }) }
  ),
  { minLength: 10, maxLength: 60 }
)

const isThird = ({ record }: Item) => record.offset % 3 === 0

/** One who comes again and again, over whatever connection. */
class Person {
  readonly got: Item[] = []
  readonly wants: ((item: Item) => boolean) | null
  readonly transport: 'sse' | 'poll'
  /** High ends when it first came. */
  since: Map<number, number> | null = null
  cursor: string | null = null
  listener: Listener | null = null
  unwritten = 0

  constructor(index: number) {
    this.wants = index % 3 === 1 ? isThird : null
    this.transport = index === 5 ? 'poll' : 'sse'
  }

  join(hub: Hub, broker: LogBroker): void {
    const listener = new Listener({ transport: this.transport, wants: this.wants })
    listener.writes = this.transport === 'poll'
    const took = listener.take.bind(listener)
    const tookAll = listener.takeAll.bind(listener)
    listener.take = item => {
      this.got.push(item)
      this.unwritten++
      took(item)
    }
    listener.takeAll = batch => {
      this.got.push(...batch.items)
      this.unwritten += batch.items.length
      tookAll(batch)
    }
    listener.close = why => {
      listener.ended.push(why)
      this.leave()
    }
    this.unwritten = 0
    // Places for readers of history may be taken: it comes again later.
    if (listener.join(hub, this.cursor === null ? null : { cursor: this.cursor }) !== null) return
    this.listener = listener
    this.since ??= new Map([...broker.logs.values()].map(({ partition, high }) => [partition, high]))
  }

  leave(): void {
    const { listener } = this
    if (listener === null) return
    this.listener = null
    this.cursor = listener.id ?? listener.seat!.cursor()
    listener.seat!.leave()
  }

  /** What is wrong; null: it has everything once and in order. */
  wrong({ logs }: LogBroker): string | null {
    for (const { partition, high, records } of logs.values()) {
      const offsets = this.got.filter(({ record }) => record.partition === partition).map(({ record }) => record.offset)
      const since = Math.min(this.since?.get(partition) ?? 0, offsets[0] ?? high)
      const all = records.slice(since).map(({ offset }) => offset)
      const expected = this.wants === null ? all : all.filter(offset => offset % 3 === 0)
      if (String(offsets) !== String(expected)) return `partition ${partition}: ${offsets} is not ${expected}`
    }
    return null
  }
}

t.test('whatever clients do, each gets every message once and in order, over two gateways', async () => {
  await fc.assert(
    fc.asyncProperty(
      deeds,
      fc.integer({ min: 1, max: 40 }),
      fc.integer({ min: 1, max: 30 }),
      async (all, window, queue) => {
        const broker = new LogBroker(2)
        broker.fetch = 7
        const options = {
          queue: { messages: queue, bytes: 1e6, policy: 'disconnect' as const },
          window: { messages: window, bytes: 1e6, ageMs: 10_000 }
        }
        const stands = [0, 1].map(() => stand(broker, { options, readers: 2, bufferMessages: 20 }))
        const people = Array.from({ length: 6 }, (_, i) => new Person(i))
        const hubs = stands.map(({ hub }) => hub)
        for (const one of people) one.join(hubs[0]!, broker)
        await until(() => hubs[0]!.status().state === 'active')
        for (const deed of all) {
          if (deed.deed === 'put' && deed.partition < broker.logs.size)
            broker.put(deed.partition, ...Array(deed.count).fill('x'))
          if (deed.deed === 'turn') for (const { clock } of stands) await clock.move(50)
          if (deed.deed === 'turn') await turns(deed.count)
          if (deed.deed === 'move') for (const { clock } of stands) await clock.move(deed.ms)
          if (deed.deed === 'grow' && broker.logs.size < 4) broker.grow(broker.logs.size)
          if (!('person' in deed)) continue
          const one = people[deed.person]!
          if (deed.deed === 'room') one.listener?.open(deed.room)
          if (deed.deed === 'write' && one.listener !== null) {
            const count = Math.min(deed.count, one.unwritten)
            one.unwritten -= count
            one.listener.seat!.written(count)
          }
          if (deed.deed === 'again') {
            one.leave()
            one.join(hubs[deed.hub]!, broker)
          }
        }
        for (let round = 0; round < 1000 && people.some(one => one.wrong(broker) !== null); round++) {
          for (const one of people) {
            if (one.listener === null) one.join(hubs[round % 2]!, broker)
            if (one.listener === null) continue
            one.listener.seat!.written(one.unwritten)
            one.unwritten = 0
            one.listener?.open()
          }
          await turns(5)
        }
        const wrong = people.map(one => one.wrong(broker)).filter(one => one !== null)
        for (const { hub } of stands) await hub.close('stopping', 0)
        for (const { budget } of stands) if (bytesOf(budget) !== 0) wrong.push(`${bytesOf(budget)} bytes are left`)
        if (broker.readings.size !== 0) wrong.push('a reading is left')
        if (wrong.length > 0) throw new Error(wrong.join('\n'))
      }
    ),
    { numRuns: 100 }
  )
})

t.test(
  'whatever a client with room leaves out, it is told of, and the newest of each key is never left out',
  async () => {
    const steps = fc.array(fc.tuple(fc.constantFrom('put', 'room', 'turn'), fc.nat(20)), {
      minLength: 5,
      maxLength: 80
    })
    const policies = fc.constantFrom('drop_oldest' as const, 'latest_by_key' as const)
    await fc.assert(
      fc.asyncProperty(
        steps,
        policies,
        fc.integer({ min: 4, max: 12 }),
        fc.boolean(),
        async (all, policy, most, isFiltered) => {
          const broker = new LogBroker(1)
          broker.fetch = 3
          const options = {
            queue: { messages: most, bytes: 1e6, policy },
            window: { messages: 5, bytes: 1e6, ageMs: 10_000 }
          }
          const { hub, budget, clock } = stand(broker, { options })
          const listener = new Listener({ wants: isFiltered ? isThird : null })
          listener.join(hub)
          await until(() => hub.status().state === 'active')
          const newest = new Map<string, string>()
          let put = 0
          for (const [deed, count] of all) {
            if (deed === 'room') listener.open(count)
            if (deed === 'turn') await turns(count % 5)
            if (deed === 'turn') await clock.move(50)
            for (let i = 0; deed === 'put' && i < count; i++) {
              const key = put % 4 === 3 && most > 4 ? null : `k${put % 3}`
              if (key !== null && (!isFiltered || put % 3 === 0)) newest.set(key, String(put))
              broker.put(0, [key, String(put++)])
            }
          }
          for (let i = 0; i < 30; i++) {
            listener.open()
            await turns(4)
          }
          const got = listener.items.map(({ record }) => record.offset)
          if (got.some((offset, i) => i > 0 && offset <= got[i - 1]!)) throw new Error(`not in order: ${got}`)
          const told = listener.gaps.reduce((sum, { items }) => sum + items, 0)
          const wanted = isFiltered ? Math.ceil(put / 3) : put
          const { dropped } = hub.status()
          if (got.length + dropped !== wanted) throw new Error(`${got.length} and ${dropped} dropped are not ${wanted}`)
          if (policy === 'drop_oldest' && told !== dropped) throw new Error(`${told} told, ${dropped} dropped`)
          if (policy === 'latest_by_key' && most === 4)
            for (const value of newest.values())
              if (!listener.got.includes(value)) throw new Error(`${value} is missing`)
          await hub.close('stopping', 0)
          if (bytesOf(budget) !== 0) throw new Error(`${bytesOf(budget)} bytes are left`)
        }
      ),
      { numRuns: 200 }
    )
  }
)
