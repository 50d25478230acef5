import type { Test } from 'tap'
import type { Claim, Outcome, Partial, Remembered, Waiter } from '../../streams/produce/remembered.ts'
import type { No } from '../../streams/refusals.ts'

export interface MadeRemembered {
  readonly remembered: Remembered
  /** The same of another process; with memory there is but one. */
  readonly other: Remembered
  /** Outcomes are no longer kept then. */
  expire(): Promise<void>
}

const ok: Outcome = { status: 200, pairs: ['x-a', 'b'], body: Buffer.from([0, 255, 13, 10]) }
const none: Outcome = { status: 202, pairs: [], body: null }
const no: No = { code: 'message_invalid', status: 422, message: 'ü', pairs: ['Retry-After', '1'] }

/** What every `Remembered` keeps to, seen from the process that claims and from another one. */
export function rememberedContract(t: Test, make: (t: Test) => Promise<MadeRemembered>): void {
  const never: Waiter = () => {}

  /** A claim that may wait: what it came to, `null` when another may try. */
  function ask(remembered: Remembered, id: string, digest: string) {
    const told = Promise.withResolvers<Outcome | null>()
    return { claim: Promise.resolve(remembered.claim(id, digest, told.resolve)), told: told.promise }
  }

  t.test('one tries, others wait for what it came to, and what is final is kept for its time', async t => {
    const { remembered, other, expire } = await make(t)
    t.equal(await remembered.claim('a', 'x', never), 'yours')
    const waiters = [remembered, other].map(one => ask(one, 'a', 'x'))
    for (const one of [remembered, other]) t.equal(await one.claim('a', 'y', never), 'other')
    for (const { claim } of waiters) t.equal(await claim, 'waiting')
    remembered.settle('a', ok)
    for (const { told } of waiters) t.same(await told, ok)
    for (const one of [remembered, other]) {
      t.same(await one.claim('a', 'x', never), ok)
      t.equal(await one.claim('a', 'y', never), 'other')
    }
    await expire()
    t.equal(await other.claim('a', 'y', never), 'yours')
    other.settle('a', null)
  })

  t.test('answers of every shape come as they were', async t => {
    const { remembered, other } = await make(t)
    for (const [i, outcome] of [ok, none, no].entries()) {
      t.equal(await remembered.claim(`${i}`, 'x', never), 'yours')
      remembered.settle(`${i}`, outcome)
      for (const one of [remembered, other]) t.same(await settled(one, `${i}`), outcome)
    }
  })

  t.test('what is not final is forgotten, and one of those who wait tries in its place', async t => {
    const { remembered, other } = await make(t)
    t.equal(await remembered.claim('a', 'x', never), 'yours')
    const waiters = [remembered, other].map(one => ask(one, 'a', 'x'))
    for (const { claim } of waiters) t.equal(await claim, 'waiting')
    remembered.settle('a', null)
    for (const { told } of waiters) t.equal(await told, null)
    t.equal(await other.claim('a', 'y', never), 'yours', 'any request')
    other.settle('a', none)
  })

  t.test('of a request that arrived in part, the part is told to whoever tries again', async t => {
    const { remembered, other } = await make(t)
    const place = { topic: 't', partition: 1, offset: 7, timestamp: 1000 }
    const partial: Partial = { results: ['delivered', null, place, { ...no }] }
    t.equal(await remembered.claim('a', 'x', never), 'yours')
    remembered.settle('a', null, partial)
    t.equal(await settled(other, 'a', 'y'), 'other')
    t.same(await other.claim('a', 'x', never), partial)
    t.equal(await remembered.claim('a', 'x', never), 'waiting', 'it is under way')
    other.settle('a', null, partial)
    t.same(await settled(remembered, 'a'), partial)
    remembered.settle('a', ok, partial)
    t.same(await settled(other, 'a'), ok)
  })

  t.test('of many at once, one tries', async t => {
    const { remembered, other } = await make(t)
    const claims: Promise<Claim>[] = []
    for (let i = 0; i < 50; i++)
      for (const one of [remembered, other]) claims.push(Promise.resolve(one.claim('a', 'x', never)))
    const all = await Promise.all(claims)
    t.equal(all.filter(claim => claim === 'yours').length, 1)
    t.equal(all.filter(claim => claim === 'waiting').length, 99)
    const winner = all.indexOf('yours') % 2 === 0 ? remembered : other
    winner.settle('a', none)
  })

  t.test('so many wait at most', async t => {
    const { remembered } = await make(t)
    const claims = await Promise.all(Array.from({ length: 102 }, () => remembered.claim('a', 'x', never)))
    t.equal(claims[0], 'yours')
    t.equal(claims[100], 'waiting')
    t.equal(claims[101], 'crowded')
    remembered.settle('a', none)
  })

  /** A settling of another process is seen at once, but on its way. */
  async function settled(remembered: Remembered, id: string, digest = 'x'): Promise<Claim | null> {
    const { claim, told } = ask(remembered, id, digest)
    const now = await claim
    if (now !== 'waiting') return now
    return (await told) ?? settled(remembered, id, digest)
  }
}
