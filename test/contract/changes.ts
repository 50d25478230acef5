import type { Test } from 'tap'
import type { Changes } from '../../gateway/changes/changes.ts'
import type { Change } from '../../gateway/store/store.ts'

/** What every `Changes` keeps to within one process. */
export function changesContract(t: Test, make: (t: Test) => Promise<Changes>): void {
  const withChanges = (name: string, run: (t: Test, changes: Changes) => Promise<void>) =>
    t.test(name, async t => {
      const changes = await make(t)
      try {
        await run(t, changes)
      } finally {
        await changes.close()
      }
    })
  const some: readonly Change[] = [
    { sequence: 1, kind: 'key', id: 'a', deleted: false },
    { sequence: 1, kind: 'policy', id: 'p', deleted: true }
  ]

  withChanges('who listens hears what is published, until they end it', async (t, changes) => {
    const heard: unknown[] = []
    const stop = changes.listen(all => void heard.push(['first', all]))
    changes.listen(all => void heard.push(['second', all]))
    await changes.publish(some)
    stop()
    await changes.publish(some.slice(1))
    t.strictSame(heard, [
      ['first', some],
      ['second', some],
      ['second', some.slice(1)]
    ])
  })

  withChanges('publishing resolves once every listener has taken it over', async (t, changes) => {
    let done = 0
    for (let i = 0; i < 2; i++) {
      changes.listen(async () => {
        await new Promise(resolve => setImmediate(resolve))
        done++
      })
    }
    await changes.publish(some)
    t.equal(done, 2)
  })

  withChanges('publishing fails as a listener does', async (t, changes) => {
    changes.listen(async () => {
      throw new Error('cannot take it over')
    })
    await t.rejects(changes.publish(some), { message: 'cannot take it over' })
  })

  withChanges('a listener that fails or takes its time keeps nothing from the others', async (t, changes) => {
    let go = () => {}
    changes.listen(async () => {
      throw new Error('cannot take it over')
    })
    changes.listen(() => new Promise<void>(resolve => (go = resolve)))
    const heard: unknown[] = []
    changes.listen(all => void heard.push(all))
    const published = t.rejects(changes.publish(some), { message: 'cannot take it over' })
    for (let i = 0; i < 20 && heard.length === 0; i++) await new Promise(resolve => setImmediate(resolve))
    t.strictSame(heard, [some])
    go()
    await published
  })

  withChanges('null says that everything may have changed', async (t, changes) => {
    const heard: unknown[] = []
    changes.listen(all => void heard.push(all))
    await changes.publish(null)
    t.strictSame(heard, [null])
  })

  t.test('nobody hears anything once it is closed', async t => {
    const changes = await make(t)
    changes.listen(() => void t.fail('heard'))
    await changes.close()
    await changes.close()
    await changes.publish(some)
    t.pass()
  })
}
