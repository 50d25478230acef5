/**
 * How much work checking one input may take, counted while it is done: schemas are written by others, and a small input
 * can send a schema round and round (branches that branch again, an expression over a long text).
 */

let left = 0
/** All expressions together, for one input: how long one takes cannot be told beforehand. */
const MOST_EXPRESSION_MS = 1000
let leftMs = 0

/** There was more to do than an input of this kind is worth. */
export class TooMuchEffort extends Error {}

/** Runs `work`, which may spend so many steps (some 100 ns each). @throws TooMuchEffort */
export function withEffort<T>(steps: number, work: () => T): T {
  left = steps
  leftMs = MOST_EXPRESSION_MS
  return work()
}

/** @throws TooMuchEffort */
export function spend(steps: number): void {
  left -= steps
  if (left < 0) throw new TooMuchEffort()
}

/** What an expression has taken. @throws TooMuchEffort */
export function spendMs(ms: number): void {
  leftMs -= ms
  if (leftMs < 0) throw new TooMuchEffort()
}
