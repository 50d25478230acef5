import { ANSWERED, type Exchange, LAST, type Outcome } from './exchange.ts'
import { type Refusal, refusals } from './refusals.ts'

/** How a request ends that was refused or went wrong; the server knows how to write both. */
export interface Endings {
  refuse(x: Exchange, refusal: Refusal): void
  fault(x: Exchange, cause: unknown): void
}

/** Runs a route's steps until one answers. A step without a promise costs a call and nothing else. */
export function drive(x: Exchange, endings: Endings, from = 0): void {
  const runs = x.route.runs
  try {
    for (let i = from; i < runs.length; i++) {
      const outcome = runs[i]!(x)
      if (outcome === undefined) continue
      if (outcome === ANSWERED) return
      if (outcome === LAST) {
        i = runs.length - 2
        continue
      }
      if (outcome instanceof Promise) return void later(x, endings, outcome, i + 1)
      return endings.refuse(x, outcome)
    }
    endings.refuse(x, refusals.fault)
  } catch (cause) {
    endings.fault(x, cause)
  }
}

async function later(x: Exchange, endings: Endings, waiting: Promise<Outcome>, next: number): Promise<void> {
  try {
    const outcome = await waiting
    if (x.gone || x.res.writableEnded || outcome === ANSWERED) return
    if (outcome === undefined) drive(x, endings, next)
    else if (outcome === LAST) drive(x, endings, x.route.runs.length - 1)
    else endings.refuse(x, outcome)
  } catch (cause) {
    endings.fault(x, cause)
  }
}
