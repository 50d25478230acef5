import type { RedisLink } from '../../redis/redis.ts'
import type { CounterState } from '../counters.ts'
import { mergeScript } from './lua.ts'
import { keysOf, placeOf, whole } from './plan.ts'

export interface MergingGiven {
  readonly link: RedisLink
  readonly moment: () => string
  readonly ledger: (id: string) => CounterState | null | Promise<CounterState | null>
}

/** States in one script, and scripts at once. */
const AT_ONCE = 500

/** Quota states on their way into Redis: from the ledger, or counted elsewhere. */
export function merging({ link, moment, ledger }: MergingGiven) {
  const run = link.script(mergeScript)
  /** Ids that the ledger is asked for now: those who miss the same quota wait for one answer. */
  const asked = new Map<string, Promise<void>>()

  function merge(mode: 'r' | 'a', states: readonly CounterState[], isAsked: boolean): Promise<number[]> {
    const keys = states.map(({ id }) => keysOf(link.prefix, id)[0])
    const args = states.map(({ count, renews }) => `${whole(Math.floor(count))} ${whole(Math.floor(renews))}`)
    return run(keys, [`${mode} ${moment()} ${isAsked ? 1 : 0}`, ...args]) as Promise<number[]>
  }

  async function restore(states: readonly CounterState[]): Promise<void> {
    for (const parts of partsOf(states)) await Promise.all(parts.map(part => merge('r', part, true)))
  }

  async function fillOne(id: string): Promise<void> {
    try {
      const state = await ledger(id)
      if (state !== null) await restore([state])
    } finally {
      asked.delete(id)
    }
  }

  async function fill(ids: readonly string[]): Promise<void> {
    await Promise.all(
      ids.map(id => {
        let filling = asked.get(id)
        if (filling === undefined) {
          filling = fillOne(id)
          asked.set(id, filling)
        }
        return filling
      })
    )
  }

  async function addPart(part: readonly CounterState[]): Promise<void> {
    const missing = await merge('a', part, false)
    if (missing.length === 0) return
    await fill(missing.map(index => part[index]!.id))
    await merge('a', part, true)
  }

  /** Batches of scripts that may run at once; in a cluster a script has states of one place alone. */
  function* partsOf(given: readonly CounterState[]): Generator<CounterState[][]> {
    const states = given.filter(({ count }) => count > 0)
    for (let i = 0; i < states.length; i += AT_ONCE) {
      const batch = states.slice(i, i + AT_ONCE)
      if (!link.isCluster) yield [batch]
      else yield [...Map.groupBy(batch, ({ id }) => placeOf(id)).values()]
    }
  }

  return {
    fill,
    restore,
    async add(states: readonly CounterState[]): Promise<void> {
      for (const parts of partsOf(states)) await Promise.all(parts.map(addPart))
    }
  }
}
