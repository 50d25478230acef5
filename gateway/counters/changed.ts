import { type Charge, type CounterState, charge, type Words } from './counters.ts'
import type { Lock } from './lock.ts'
import { COUNT, changedBy, END, KIND, kindOf, QUOTA, type Records } from './records.ts'

/** Makes a charge of an id alone, so that all that is looked up has one shape. */
const any = { kind: 'quota', algorithm: 'bucket', allowed: 1, perMs: 1, slope: null, countsRefused: false } as const

/**
 * What the ledger has yet to learn: quotas that changed (each in the list of one thread, whose mark the record bears), and
 * ids that this thread was told to forget.
 */
export function changedQuotas(records: Records, lock: Lock | null, owner: number) {
  const { whole, real } = records
  const mark = changedBy(owner)
  let changed: Charge[] = []
  const forgotten = new Map<string, Words>()

  /** This thread has just set its mark on it. */
  function list(limit: Charge): void {
    // Only where nobody dumps: at least half of them have left this memory.
    if (changed.length >= 2 * records.most) changed = changed.filter(isMine)
    changed.push(limit)
  }

  function isMine(words: Words): boolean {
    lock?.enter()
    const is = whole[records.find(words) * 16 + KIND] === mark
    lock?.leave()
    return is
  }

  function noteForgotten(id: string, words: Words): void {
    if (forgotten.size >= records.most) forgotten.delete(forgotten.keys().next().value!)
    forgotten.set(id, words)
  }

  function dump(limit: number): CounterState[] {
    const states: CounterState[] = []
    for (const [id, words] of forgotten) {
      if (states.length >= limit) return states
      forgotten.delete(id)
      const state = stateOf(id, words, QUOTA)
      if (state !== null) states.push(state)
      // Counted again since: it comes with the changed ones.
      else if (!isCounted(words)) states.push({ id, count: 0, renews: 0 })
    }
    let i = 0
    for (; i < changed.length && states.length < limit; i++) {
      const state = stateOf(changed[i]!.id, changed[i]!, mark)
      if (state !== null) states.push(state)
    }
    changed = changed.slice(i)
    return states
  }

  /** The newest state of a record of exactly this kind and mark, which it then bears no more. */
  function stateOf(id: string, words: Words, kind: number): CounterState | null {
    lock?.enter()
    const number = records.find(words)
    const is = whole[number * 16 + KIND] === kind
    const count = real[number * 8 + COUNT]!
    const end = real[number * 8 + END]!
    if (is) whole[number * 16 + KIND] = QUOTA
    lock?.leave()
    return is ? { id, count, renews: end === Infinity ? 0 : end } : null
  }

  function isCounted(words: Words): boolean {
    lock?.enter()
    const is = (whole[records.find(words) * 16 + KIND]! & kindOf) === QUOTA
    lock?.leave()
    return is
  }

  function adopt(states: readonly CounterState[]): void {
    for (const { id, count } of states) {
      const limit = charge(id, any)
      if (count === 0) {
        noteForgotten(id, limit)
        continue
      }
      lock?.enter()
      const w = records.find(limit) * 16
      // One that bears a mark again comes with that thread's next dump.
      const is = whole[w + KIND] === QUOTA
      if (is) whole[w + KIND] = mark
      lock?.leave()
      if (is) list(limit)
    }
  }

  return { mark, list, noteForgotten, dump, adopt }
}
