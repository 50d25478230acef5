const FIRST_MS = 1000
const LONGEST_MS = 30_000

/** Milliseconds before the next try, after so many that failed one after another: 1 s, doubled up to 30 s. */
export function backoffMs(failures: number): number {
  return Math.min(FIRST_MS * 2 ** Math.min(failures, 10), LONGEST_MS)
}
