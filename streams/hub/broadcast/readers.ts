import type { Budget } from '../../budget.ts'

/** How many clients of this process read history at once (`streaming.catch_up_readers`), and who waits to. */
export class Readers {
  readonly #most: number
  readonly #line = new Set<() => void>()
  #used = 0

  constructor(most: number) {
    this.#most = most
  }

  /** False: there are enough; whoever stands in line comes first. */
  take(): boolean {
    if (this.#used >= this.#most || this.#line.size > 0) return false
    this.#used++
    return true
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
    for (const turn of this.#line) {
      if (this.#used >= this.#most) return
      this.#line.delete(turn)
      this.#used++
      turn()
    }
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
