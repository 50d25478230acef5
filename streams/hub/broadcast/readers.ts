import type { Budget } from '../../budget.ts'

/** Clients that wait for a place, at most: each holds its connection meanwhile. */
const LONGEST_LINE = 1000

/** How many clients of this process read history at once (`streaming.catch_up_readers`), and who waits to. */
export class Readers {
  readonly #most: number
  readonly #line = new Set<() => void>()
  #used = 0
  #isGiving = false

  constructor(most: number) {
    this.#most = most
  }

  /** False: there are enough; whoever stands in line comes first. */
  take(): boolean {
    if (this.#used >= this.#most || this.#line.size > 0) return false
    this.#used++
    return true
  }

  get hasLine(): boolean {
    return this.#line.size > 0
  }

  /** The line is as long as it may be for those who are not in yet. */
  get isCrowded(): boolean {
    return this.#line.size >= LONGEST_LINE
  }

  /** Calls it once it is its turn; then the place is taken. */
  wait(turn: () => void): void {
    this.#line.add(turn)
  }

  leaveLine(turn: () => void): void {
    this.#line.delete(turn)
  }

  give(): void {
    this.#used--
    // Who finds all in the window gives its place on at once: the loop below sees it, however long the line.
    if (this.#isGiving) return
    this.#isGiving = true
    for (const turn of this.#line) {
      if (this.#used >= this.#most) break
      this.#line.delete(turn)
      this.#used++
      turn()
    }
    this.#isGiving = false
  }
}

const ofProcess = new WeakMap<Budget, Readers>()

/** The one of the process that this budget is of. */
export function readersOf(budget: Budget, most: number): Readers {
  let readers = ofProcess.get(budget)
  if (readers === undefined) {
    readers = new Readers(most)
    ofProcess.set(budget, readers)
  }
  return readers
}
