import { renameSync } from 'node:fs'
import { join } from 'node:path'
import t from 'tap'
import type { Clock } from '../config/world.ts'
import { type Health, watch } from '../gateway/probes.ts'
import { storeMemory } from '../gateway/store/storeMemory.ts'
import { storeSqlite } from '../gateway/store/storeSqlite.ts'
import { collectedLog } from './helpers/gateway.ts'

/** A clock whose timers run when they are told to. */
function byHand(): Clock & { tick(): Promise<void>; readonly waiting: number } {
  let timers: (() => void)[] = []
  return {
    now: () => 1_000,
    after(_ms, run) {
      timers.push(run)
      return () => {
        timers = timers.filter(timer => timer !== run)
      }
    },
    get waiting() {
      return timers.length
    },
    async tick() {
      for (const run of timers.splice(0)) run()
      await new Promise(resolve => setImmediate(resolve))
    }
  }
}

t.test('what became of the store is seen at the next look, and again when it is back', async t => {
  const clock = byHand()
  const health: Health = { version: '1', notReady: '', parts: {} }
  const store = storeMemory()
  let away = false
  const stop = await watch(
    health,
    {
      ...store,
      async sequence() {
        if (away) throw new Error('away')
        return 1
      }
    },
    clock
  )
  const failure = () => health.parts.documents!.failure
  t.equal(failure(), null)
  away = true
  await clock.tick()
  t.equal(failure(), 'Document store not available')
  away = false
  await clock.tick()
  t.equal(failure(), null)
  stop()
  t.equal(clock.waiting, 0)
})

t.test('a store that can be read but not written fails too: its folder was moved away, and came back', async t => {
  const clock = byHand()
  const health: Health = { version: '1', notReady: '', parts: {} }
  const folder = t.testdir({ data: {} })
  const store = await storeSqlite({ path: join(folder, 'data/svc.db'), log: collectedLog() })
  t.teardown(() => store.close())
  const stop = await watch(health, store, clock)
  const seen = async () => {
    await clock.tick()
    while (clock.waiting === 0) await new Promise(resolve => setTimeout(resolve, 5))
    return health.parts.documents!.failure
  }
  t.equal(await seen(), null)
  renameSync(join(folder, 'data'), join(folder, 'moved'))
  t.equal(await seen(), 'Document store not available')
  renameSync(join(folder, 'moved'), join(folder, 'data'))
  t.equal(await seen(), null)
  t.equal(await store.sequence(), 0, 'looking writes nothing')
  stop()
})
