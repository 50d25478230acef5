import type { Logs } from './logs.ts'
import { DRAWN, HAND } from './memory.ts'
import { ASIDE, END, KIND, kindOf, LOG, QUOTA, type Records, SEEN } from './records.ts'

/** How many records each new one has looked at, so that ended ones make room before there is need. */
const swept = 4
/** Among how many the least used leaves. They are drawn, since neighbours are of one age. */
const sample = 8

/** Who leaves when room is needed: what has ended, then the least used of a few. A hand goes round; no timer sweeps. */
export function leaving(records: Records, logs: Logs, state: Int32Array) {
  const { whole, real } = records

  /** Makes a record say nothing, as one of this kind. */
  function clear(number: number, kind: number): void {
    freeLogOf(number)
    records.clear(number, kind)
  }

  function remove(number: number): void {
    freeLogOf(number)
    records.remove(number)
  }

  function freeLogOf(number: number): void {
    if (whole[number * 16 + KIND] === LOG) logs.free(whole[number * 16 + ASIDE]!)
  }

  /** Nothing that the record says counts any more. */
  function isOver(number: number, now: number): boolean {
    const r = number * 8
    if (now <= real[r + END]!) return false
    // A log's end already says how long smoothing keeps.
    const kept = whole[r * 2 + KIND] === LOG ? 0 : whole[r * 2 + ASIDE]! * 1000
    return kept === 0 || now - real[r + SEEN]! >= kept
  }

  function next(): number {
    const hand = state[HAND]! + 1 < records.reached ? state[HAND]! + 1 : 1
    state[HAND] = hand
    return hand
  }

  function draw(): number {
    let drawn = state[DRAWN]!
    drawn ^= drawn << 13
    drawn ^= drawn >>> 17
    drawn ^= drawn << 5
    state[DRAWN] = drawn
    return 1 + ((drawn >>> 0) % (records.reached - 1))
  }

  /** Lets ended records go, and the least used of some when as many are in use as may be. */
  function makeRoom(now: number): void {
    for (let looked = 1; looked <= swept && looked < records.reached; looked++) {
      const number = next()
      if (kindAt(number) !== 0 && isOver(number, now)) remove(number)
    }
    if (records.used < records.most) return
    // All records are in use, so none that is drawn is free.
    let victim = 0
    let oldest = Infinity
    for (let looked = 0; looked < sample; looked++) {
      const number = draw()
      // A lost quota gives away what was paid for; a lost rate one window.
      const paid = kindAt(number) === QUOTA && !isOver(number, now)
      const seen = real[number * 8 + SEEN]! + (paid ? 1e15 : 0)
      if (seen >= oldest) continue
      oldest = seen
      victim = number
    }
    remove(victim)
  }

  /** Frees chunks of the arena: those of the least used log among some; false: there is no other log. */
  function freeLog(except: number): boolean {
    let victim = 0
    let oldest = Infinity
    for (let looked = 0, found = 0; looked < 1024 && found < sample; looked++) {
      const number = draw()
      if (number === except || !hasLog(number)) continue
      found++
      const seen = real[number * 8 + SEEN]!
      if (seen >= oldest) continue
      oldest = seen
      victim = number
    }
    // Where logs are few and long, the draw may miss them all.
    for (let looked = 1; victim === 0 && looked < records.reached; looked++) {
      const number = next()
      if (number !== except && hasLog(number)) victim = number
    }
    if (victim === 0) return false
    clear(victim, LOG)
    return true
  }

  function hasLog(number: number): boolean {
    return kindAt(number) === LOG && whole[number * 16 + ASIDE] !== 0
  }

  function kindAt(number: number): number {
    return whole[number * 16 + KIND]! & kindOf
  }

  return { kindAt, clear, remove, makeRoom, freeLog }
}
