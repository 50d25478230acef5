import type { Logs } from './logs.ts'
import { ASIDE, END, KIND, kindOf, LOG, QUOTA, type Records, SEEN, type Segment } from './records.ts'

/** How many records are looked at for the one that leaves. */
const sample = 16

/** Who leaves when room is needed: what has ended, then the least used of a few. No timer sweeps. */
export function leaving(records: Records, logs: Logs) {
  /** Which segment the search for a log to free goes on in. */
  let turn = 0

  function clear(segment: Segment, at: number, kind: number): void {
    if ((segment.whole[at * 16 + KIND]! & kindOf) === LOG) logs.free(segment.whole[at * 16 + ASIDE]!)
    segment.clear(at, kind)
  }

  function remove(segment: Segment, at: number): void {
    if (segment.whole[at * 16 + KIND] === LOG) logs.free(segment.whole[at * 16 + ASIDE]!)
    segment.remove(at)
  }

  /** Nothing that the record says counts any more. */
  function isOver(segment: Segment, at: number, now: number): boolean {
    const { whole, real } = segment
    if (now <= real[at * 8 + END]!) return false
    // A log's end already says how long smoothing keeps.
    const kept = whole[at * 16 + KIND] === LOG ? 0 : whole[at * 16 + ASIDE]! * 1000
    return kept === 0 || now - real[at * 8 + SEEN]! >= kept
  }

  function makeRoom(segment: Segment, now: number): void {
    if (segment.full) {
      evict(segment, now)
      return
    }
    let live = 0
    for (let at = 0; at < segment.capacity; at++)
      if (segment.whole[at * 16 + KIND] !== 0 && !isOver(segment, at, now)) live++
    // With a quarter of the room regained the next look through all of them is far enough away.
    segment.rebuild(live > segment.room * 0.75 ? segment.capacity * 1.5 : segment.capacity, (from, at) => {
      if (!isOver(from, at, now)) return true
      if (from.whole[at * 16 + KIND] === LOG) logs.free(from.whole[at * 16 + ASIDE]!)
      return false
    })
  }

  /** Frees at least one place of a full segment: the ended ones of the next few, else the least used of them. */
  function evict(segment: Segment, now: number): void {
    let victim = -1
    let oldest = Infinity
    let freed = false
    for (let looked = 0; looked < sample; ) {
      if (segment.hand >= segment.capacity) segment.hand = 0
      const at = segment.hand
      const kind = segment.whole[at * 16 + KIND]! & kindOf
      if (kind === 0) {
        segment.hand++
        continue
      }
      looked++
      if (isOver(segment, at, now)) {
        // Another record may have moved to this place: the hand stays. The victim may have moved too.
        remove(segment, at)
        freed = true
        if (segment.used === 0) return
        continue
      }
      // A lost quota gives away what was paid for; a lost rate one window.
      const used = segment.real[at * 8 + SEEN]! + (kind === QUOTA ? 1e15 : 0)
      if (used < oldest) {
        oldest = used
        victim = at
      }
      segment.hand++
    }
    if (!freed) remove(segment, victim)
  }

  /** Frees chunks of the arena: the ended logs among the next few, else the least used of them; false: there are none. */
  function freeLog(now: number, except: Segment, exceptAt: number): boolean {
    let victim: Segment | null = null
    let victimAt = 0
    let oldest = Infinity
    let freed = false
    let looked = 0
    let passed = 0
    for (let rounds = 0; rounds <= records.segments.length; rounds++) {
      const segment = records.segments[turn]!
      for (; segment.hand < segment.capacity; segment.hand++) {
        const at = segment.hand
        if (segment.whole[at * 16 + KIND] !== LOG || segment.whole[at * 16 + ASIDE] === 0) continue
        if (segment === except && at === exceptAt) continue
        if (isOver(segment, at, now)) {
          clear(segment, at, LOG)
          freed = true
        } else if (segment.real[at * 8 + SEEN]! < oldest) {
          oldest = segment.real[at * 8 + SEEN]!
          victim = segment
          victimAt = at
        }
        if (++looked < sample) continue
        segment.hand++
        if (!freed) clear(victim!, victimAt, LOG)
        return true
      }
      passed += segment.capacity
      segment.hand = 0
      turn = turn + 1 === records.segments.length ? 0 : turn + 1
      if ((freed || victim !== null) && passed > 4096) break
    }
    if (!freed && victim !== null) clear(victim, victimAt, LOG)
    return freed || victim !== null
  }

  return { clear, remove, makeRoom, freeLog }
}
