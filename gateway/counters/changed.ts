import { type Charge, type CounterState, type Words, wordsOf } from './counters.ts'
import type { Lock } from './lock.ts'
import { COUNT, changedBy, END, KIND, kindOf, QUOTA, type Records } from './records.ts'

/** Instead of a mark. */
const ANY = -1

/**
 * What the ledger has yet to learn: quotas that changed (each in the list of one thread, whose mark the record bears), ids
 * that this thread was told to forget, and what it adopted.
 */
export function changedQuotas(records: Records, lock: Lock | null, owner: number) {
  const { whole, real } = records
  const mark = changedBy(owner)
  let changed: Charge[] = []
  const forgotten = new Map<string, Words>()
  const adopted = new Map<string, Words>()

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
    note(forgotten, id, words)
  }

  function note(all: Map<string, Words>, id: string, words: Words): void {
    if (all.size >= records.most) all.delete(all.keys().next().value!)
    all.set(id, words)
  }

  function dump(limit: number): CounterState[] {
    const states: CounterState[] = []
    for (const [id, words] of forgotten) {
      if (states.length >= limit) return states
      forgotten.delete(id)
      const state = stateOf(id, words, QUOTA)
      if (state !== null) states.push(state)
      // Counted again since: it comes with the changed ones.
      else if (stateOf(id, words, ANY) === null) states.push({ id, count: 0, renews: 0 })
    }
    for (const [id, words] of adopted) {
      if (states.length >= limit) return states
      adopted.delete(id)
      // Whatever mark it bears: one that is charged all the time never bears none. Its own comes off, so that it comes once.
      const state = stateOf(id, words, mark) ?? stateOf(id, words, ANY)
      if (state !== null) states.push(state)
    }
    let i = 0
    for (; i < changed.length && states.length < limit; i++) {
      const state = stateOf(changed[i]!.id, changed[i]!, mark)
      if (state !== null) states.push(state)
    }
    changed = changed.slice(i)
    return states
  }

  /** The newest state of a quota that bears this mark, and then no more; `ANY`: whichever it bears, which stays. */
  function stateOf(id: string, words: Words, wanted: number): CounterState | null {
    lock?.enter()
    const number = records.find(words)
    const kind = whole[number * 16 + KIND]!
    const is = wanted === ANY ? (kind & kindOf) === QUOTA : kind === wanted
    const count = real[number * 8 + COUNT]!
    const end = real[number * 8 + END]!
    if (is && wanted !== ANY) whole[number * 16 + KIND] = QUOTA
    lock?.leave()
    return is ? { id, count, renews: end === Infinity ? 0 : end } : null
  }

  function adopt(states: readonly CounterState[]): void {
    for (const { id, count } of states) note(count === 0 ? forgotten : adopted, id, wordsOf(id))
  }

  return { mark, list, noteForgotten, dump, adopt }
}
