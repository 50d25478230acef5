import t, { type Test } from 'tap'
import type { Bell } from '../../gateway/changes/bell.ts'
import { anyOf } from '../../gateway/changes/changes.ts'
import { changesFollowing, type FollowingGiven } from '../../gateway/changes/changesFollowing.ts'
import { type Change, deletionsKept, type Kind, type Store, Unavailable } from '../../gateway/store/store.ts'
import { storeMemory } from '../../gateway/store/storeMemory.ts'
import { changesContract } from '../contract/changes.ts'
import { handClock } from '../helpers/clock.ts'
import { collectedLog } from '../helpers/gateway.ts'

const plain = () => ({ store: storeMemory(), clock: handClock(), log: collectedLog() })
changesContract(t, async () => changesFollowing(plain()))
changesContract(t, async () =>
  changesFollowing({
    ...plain(),
    holds: 'keys',
    bell: bell(),
    onto: await changesFollowing({ ...plain(), holds: 'others', maxStaleMs: 1_000, bell: bell() })
  })
)

interface HandBell extends Bell {
  readonly rung: number[]
  isBroken: boolean
  tell(sequence: number | null): void
}

/** One that rings in this process alone, as often as a test wants. */
function bell(): HandBell {
  const listeners = new Set<(sequence: number | null) => void>()
  const made: HandBell = {
    rung: [],
    isBroken: false,
    ring(sequence) {
      made.rung.push(sequence)
      if (!made.isBroken) made.tell(sequence)
    },
    tell(sequence) {
      for (const each of listeners) each(sequence)
    },
    listen(listener) {
      listeners.add(listener)
      return () => void listeners.delete(listener)
    }
  }
  return made
}

const key = (id: string) => ({ kind: 'key' as const, id, org: 'o1', body: id })
const change = (sequence: number, id: string, deleted = false): Change => ({ sequence, kind: 'key', id, deleted })

async function turns() {
  for (let i = 0; i < 20; i++) await new Promise(resolve => setImmediate(resolve))
}

/** Documents that others write too, and what is heard of them. */
async function following(t: Test, given: Partial<FollowingGiven> = {}) {
  const documents = storeMemory()
  const asked: (readonly Kind[] | undefined)[] = []
  let isAway = false
  let origin = 'first'
  let present = documents
  const store = {
    sequence: () => present.sequence(),
    async stand() {
      if (isAway) throw new Unavailable('away')
      return { sequence: await present.sequence(), origin }
    },
    async since(sequence: number, kinds?: readonly Kind[]) {
      asked.push(kinds)
      return present.since(sequence, kinds)
    }
  }
  await documents.commit([key('before')])
  const clock = handClock()
  const log = collectedLog()
  const changes = await changesFollowing({ store, clock, log, ...given })
  t.teardown(() => changes.close())
  const heard: (readonly Change[] | null)[] = []
  changes.listen(all => void heard.push(all))
  return {
    documents,
    changes,
    log,
    asked,
    clock,
    /** As `heard`, but no look is due by itself. */
    async now(ms = 0) {
      await turns()
      await clock.move(ms)
      await turns()
      return heard.splice(0)
    },
    /** What was heard since the last call, a second later. */
    async heard() {
      await clock.move(1_000)
      await turns()
      await clock.move(1_000)
      return heard.splice(0)
    },
    away(is: boolean) {
      isAway = is
    },
    /** Another server answers, with other documents. */
    restored(to: Store, name: string) {
      present = to
      origin = name
    }
  }
}

t.test('what others write is heard within a second, once, what was there before is not', async t => {
  const { documents, heard } = await following(t)
  t.strictSame(await heard(), [])
  await documents.commit([key('a'), key('b')])
  await documents.commit([{ kind: 'key', id: 'b', body: null }])
  const [all, ...more] = await heard()
  t.strictSame(
    [...all!].sort((a, b) => a.sequence - b.sequence),
    [change(2, 'a'), change(3, 'b', true)]
  )
  t.strictSame(more, [])
  t.strictSame(await heard(), [])
})

t.test('own writes are heard once, and those of others to the same document after them', async t => {
  const { documents, changes, heard } = await following(t)
  const sequence = await documents.commit([key('own')])
  await changes.publish([change(sequence, 'own')])
  t.strictSame(await heard(), [[change(2, 'own')]])
  await documents.commit([key('own')])
  t.strictSame(await heard(), [[change(3, 'own')]])
})

t.test('kinds that nobody holds in memory are not asked for', async t => {
  const { documents, heard, asked } = await following(t)
  const noise: readonly Kind[] = ['ledger', 'audit', 'revision']
  await documents.commit(noise.map(kind => ({ kind, id: 'x', org: '', body: 1 })))
  t.strictSame(await heard(), [])
  t.equal(asked.length, 1, 'and not again')
  for (const kind of noise) t.notOk(asked[0]!.includes(kind))
  await documents.commit([{ kind: 'user', id: 'u', org: '', body: 1 }])
  t.match(await heard(), [[{ kind: 'user', id: 'u' }]])
})

t.test('after an outage everything is void, as writes may be lost, and each turn is said once', async t => {
  const { documents, heard, away, log } = await following(t)
  away(true)
  await documents.commit([key('a')])
  t.strictSame(await heard(), [])
  t.strictSame(await heard(), [])
  away(false)
  t.strictSame(await heard(), [null])
  t.strictSame(await heard(), [])
  await documents.commit([key('a')])
  t.strictSame(await heard(), [[change(3, 'a')]])
  t.match(
    log.lines.map(({ level, msg }) => `${level} ${msg}`),
    ['error changes of other processes cannot be heard', 'info changes of other processes are heard again']
  )
})

t.test('what a listener cannot take over is told again', async t => {
  const { documents, changes, heard } = await following(t)
  let isFailing = true
  changes.listen(() => {
    if (isFailing) throw new Unavailable('away')
  })
  await documents.commit([key('a')])
  t.ok((await heard()).length > 0)
  t.ok((await heard()).length > 0, 'to all')
  isFailing = false
  t.strictSame(await heard(), [[change(2, 'a')]])
  t.strictSame(await heard(), [])
})

t.test('changes that cannot be told are heard as "everything"', async t => {
  const { documents, heard } = await following(t)
  const many = Array.from({ length: deletionsKept + 1 }, (_, i) => `${i}`)
  await documents.commit(many.map(key))
  for (const id of many) await documents.commit([{ kind: 'key', id, body: null }])
  t.strictSame(await heard(), [null])
  await documents.commit([key('a')])
  t.match(await heard(), [[{ id: 'a' }]])
})

t.test('a bell makes it look at once, and a bell that is broken costs half a second', async t => {
  const one = bell()
  const { documents, now } = await following(t, { bell: one })
  one.ring(await documents.commit([key('a')]))
  t.strictSame(await now(), [[change(2, 'a')]])
  await documents.commit([key('b')])
  one.tell(null)
  t.strictSame(await now(49), [], 'not more often than every 50 ms')
  t.strictSame(await now(1), [[change(3, 'b')]], 'it may have rung unheard')
  one.isBroken = true
  one.ring(await documents.commit([key('c')]))
  t.strictSame(await now(499), [])
  t.strictSame(await now(1), [[change(4, 'c')]])
})

t.test('own writes ring, also those that a listener here could not take over', async t => {
  const one = bell()
  const { documents, changes, heard } = await following(t, { bell: one })
  const sequence = await documents.commit([key('own')])
  await changes.publish([change(sequence, 'own')])
  await changes.publish(null)
  t.strictSame(one.rung, [sequence])
  const stop = changes.listen(() => {
    throw new Unavailable('away')
  })
  await t.rejects(changes.publish([change(sequence, 'own')]))
  stop()
  t.strictSame(one.rung, [sequence, sequence])
  await heard()
})

t.test('a flood of rings is looked at every 50 ms', async t => {
  const one = bell()
  const { documents, asked, clock } = await following(t, { bell: one })
  for (let i = 0; i < 100; i++) {
    one.ring(await documents.commit([key(`${i}`)]))
    await clock.move(5)
    await turns()
  }
  t.ok(asked.length <= 12, `${asked.length} looks`)
  t.ok(asked.length >= 5, `${asked.length} looks`)
})

t.test('keys do not wait for APIs that take their time', async t => {
  const { documents, changes, heard } = await following(t)
  const slow: (() => void)[] = []
  changes.listen(all => {
    const isSlow = all === null || all.some(({ kind }) => kind === 'api')
    return isSlow ? new Promise<void>(resolve => slow.push(resolve)) : undefined
  })
  await documents.commit([{ kind: 'api', id: 'x', org: '', body: 1 }])
  t.match(await heard(), [[{ kind: 'api', id: 'x' }]])
  await documents.commit([key('a')])
  t.match(await heard(), [[{ kind: 'key', id: 'a' }]])
  await documents.commit([{ kind: 'api', id: 'y', org: '', body: 1 }])
  t.strictSame(await heard(), [], 'one telling of APIs at a time')
  slow.shift()!()
  t.match(await heard(), [[{ kind: 'api', id: 'y' }]])
  slow.shift()!()
})

t.test('APIs that could not be taken over are told again, once it is said', async t => {
  const { documents, changes, heard, log } = await following(t)
  let isFailing = true
  changes.listen(() => {
    if (isFailing) throw new Unavailable('away')
  })
  await documents.commit([{ kind: 'api', id: 'x', org: '', body: 1 }])
  t.ok((await heard()).length > 1)
  isFailing = false
  t.match(await heard(), [[{ kind: 'api', id: 'x' }]])
  t.strictSame(await heard(), [])
  t.strictSame(
    log.lines.map(({ msg }) => msg),
    ['changes of other processes cannot be taken over']
  )
})

t.test(
  'nobody could say for too long: keys and users are forgotten, and everything is read anew afterwards',
  async t => {
    const cases = [
      ['all', [anyOf('key'), anyOf('user')], null],
      ['keys', [anyOf('key')], [anyOf('key')]],
      ['others', [anyOf('user')], null]
    ] as const
    for (const [holds, stale, back] of cases) {
      const { heard, away, log } = await following(t, { holds, maxStaleMs: 5_000 })
      t.strictSame(await heard(), [])
      away(true)
      for (let i = 0; i < 2; i++) t.strictSame(await heard(), [])
      t.strictSame(await heard(), [stale])
      t.strictSame(await heard(), [])
      t.strictSame(await heard(), [stale], 'what was read since cannot be confirmed either')
      away(false)
      t.strictSame(await heard(), [back])
      for (let i = 0; i < 5; i++) t.strictSame(await heard(), [], 'all is well')
      t.strictSame(
        log.lines.map(({ level, msg }) => `${level} ${msg}`),
        [
          'error changes of other processes cannot be heard',
          'warn changes unheard for too long: what is in memory is no longer believed',
          'info documents in memory are compared with the store again'
        ]
      )
    }
  }
)

t.test('two stores are heard as one, each by its own sequence', async t => {
  const [documents, keys] = [storeMemory(), storeMemory()]
  const [clock, log] = [handClock(), collectedLog()]
  const bells = [bell(), bell()] as const
  const others = await changesFollowing({ store: documents, holds: 'others', clock, log, bell: bells[0] })
  const changes = await changesFollowing({ store: keys, holds: 'keys', clock, log, bell: bells[1], onto: others })
  t.teardown(() => changes.close())
  const heard: unknown[] = []
  changes.listen(all => void heard.push(all))
  const seconds = async () => {
    for (let i = 0; i < 4; i++) await clock.move(500)
    await turns()
    return heard.splice(0)
  }
  const policy = { kind: 'policy' as const, id: 'p', org: 'o1', body: 1 }
  for (let i = 0; i < 5; i++) await documents.commit([policy])
  t.strictSame(await seconds(), [[{ sequence: 5, kind: 'policy', id: 'p', deleted: false }]])
  await keys.commit([key('a')])
  t.strictSame(await seconds(), [[change(1, 'a')]])
  const own = await keys.commit([key('b')])
  await changes.publish([change(own, 'b')])
  t.strictSame(await seconds(), [[change(2, 'b')]])
  t.same(
    bells.map(({ rung }) => rung),
    [[], [2]]
  )
  await changes.publish([{ sequence: await documents.commit([policy]), kind: 'policy', id: 'p', deleted: false }])
  t.equal((await seconds()).length, 1)
  t.same(
    bells.map(({ rung }) => rung),
    [[6], [2]]
  )
})

t.test('another server that has lost writes, and made as many others since, makes everything void', async t => {
  const cases = [
    ['all', null],
    ['keys', [anyOf('key')]],
    ['others', null]
  ] as const
  for (const [holds, lost] of cases) {
    const { documents, changes, heard, restored, log } = await following(t, { holds })
    const kind = holds === 'others' ? 'user' : 'key'
    const write = (id: string) => ({ kind, id, org: '', body: 1 }) as const
    const sequence = await documents.commit([write('lost'), write('x')])
    await changes.publish(['lost', 'x'].map(id => ({ sequence, kind, id, deleted: false })))
    await heard()
    const older = storeMemory()
    for (let i = 0; i < sequence; i++) await older.commit([write(`other ${i}`)])
    restored(older, 'second')
    t.strictSame(await heard(), [lost], holds)
    t.strictSame(await heard(), [])
    await older.commit([write('y')])
    t.match(await heard(), [[{ kind, id: 'y' }]])
    t.strictSame(
      log.lines.map(({ msg }) => msg),
      ['the store was restarted or is another: everything is read anew']
    )
  }
})

t.test('what this process wrote before writes were lost does not hide what others write then', async t => {
  const { documents, changes, heard, restored } = await following(t)
  for (let i = 0; i < 5; i++) await documents.commit([key('filler')])
  const sequence = await documents.commit([key('x')])
  await changes.publish([change(sequence, 'x')])
  const older = storeMemory()
  await older.commit([key('x')])
  restored(older, 'second')
  t.match(await heard(), [[{ id: 'x' }], null])
  await older.commit([{ kind: 'key', id: 'x', body: null }])
  t.strictSame(await heard(), [[change(2, 'x', true)]])
})

t.test('a store that was empty has nothing to lose, whichever server answers', async t => {
  const [clock, log] = [handClock(), collectedLog()]
  const store = storeMemory()
  let origin = ''
  const given = { stand: async () => ({ sequence: await store.sequence(), origin }), sequence: store.sequence }
  const mine = await changesFollowing({ store: { ...given, since: store.since }, clock, log })
  t.teardown(() => mine.close())
  const all: unknown[] = []
  mine.listen(some => void all.push(some))
  await store.commit([key('a')])
  origin = 'made'
  await clock.move(500)
  await turns()
  t.strictSame(all, [[change(1, 'a')]])
  t.strictSame(log.lines, [])
})
