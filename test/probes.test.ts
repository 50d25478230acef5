import t from 'tap'
import type { Clock } from '../config/world.ts'
import { type Health, watch } from '../gateway/probes.ts'
import { storeMemory } from '../gateway/store/storeMemory.ts'

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
