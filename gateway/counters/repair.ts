import { Lock, REPAIRER } from './lock.ts'
import { REACHED, ROBBED, type SharedCounters } from './memory.ts'
import { changedBy, KIND, QUOTA } from './records.ts'

/** Records that one hold of the lock goes through. */
const atOnce = 4096

/**
 * After a thread has ended (its `exit` was heard), called in the main thread, and before a new
 * thread takes its number. The others may go on counting meanwhile; those that wait for what it held go on after this.
 *
 * True: it ended in the middle of a change, so that nothing held can be trusted. All counters were let go: rates begin
 * anew, and the caller restores quotas from the ledger. False: every count stands. The quotas that it had yet to dump
 * come with the dump of the thread that charges them next; until then the ledger has them as of its last dump.
 */
export function repair(shared: SharedCounters, owner: number): boolean {
  const lock = new Lock(shared, REPAIRER)
  if (lock.takeFrom(owner)) {
    lock.leave()
    return true
  }
  const mark = changedBy(owner)
  const state = new Int32Array(shared.state)
  const records = new Int32Array(shared.records)
  for (let number = 1; number < state[REACHED]!; ) {
    lock.enter()
    const end = Math.min(number + atOnce, state[REACHED]!)
    for (; number < end; number++) if (records[number * 16 + KIND] === mark) records[number * 16 + KIND] = QUOTA
    lock.leave()
  }
  // The main thread may have had to wait for such a thread, and have let go of everything before this was called.
  return Atomics.exchange(state, ROBBED, 0) !== 0
}
