import type { Clock } from '../../config/world.ts'
import type { Target } from './upstream.ts'

/** How long a target that refused or did not connect in time is passed over, milliseconds. */
export const DOWN_MS = 10_000

/** The targets of one API in turn, each as often as its weight says, without those that are down. */
export class Targets {
  /** One slot a unit of weight, spread so that equal targets alternate. */
  private readonly slots: readonly number[]
  private readonly targets: readonly Target[]
  private readonly downUntil: number[]
  /** A target that failed is passed over for a while. */
  readonly skips: boolean
  private readonly clock: Clock
  private next = 0

  constructor(given: readonly { target: Target; weight: number }[], skips: boolean, clock: Clock) {
    this.targets = given.map(each => each.target)
    this.slots = spread(given.map(each => each.weight))
    this.downUntil = given.map(() => 0)
    this.skips = skips
    this.clock = clock
  }

  /** The next target that is up, or null when all are out. */
  pick(): Target | null {
    const slots = this.slots
    if (slots.length === 1) return this.up(slots[0]!) ? this.targets[slots[0]!]! : null
    for (let tries = 0; tries < slots.length; tries++) {
      const index = slots[this.next]!
      this.next = this.next + 1 === slots.length ? 0 : this.next + 1
      if (this.up(index)) return this.targets[index]!
    }
    return null
  }

  /** For another try: any other target that is up, else the same; null when all are out. */
  another(failed: Target): Target | null {
    for (let tries = 1; tries < this.slots.length; tries++) {
      const next = this.pick()
      if (next !== failed) return next
    }
    return this.pick()
  }

  /** A target refused or did not connect in time. */
  down(target: Target): void {
    if (this.skips) this.downUntil[this.targets.indexOf(target)] = this.clock.now() + DOWN_MS
  }

  private up(index: number): boolean {
    const until = this.downUntil[index]!
    return until === 0 || this.clock.now() >= until
  }
}

/** Smooth weighted order: each turn goes to the target that is furthest behind its share. */
function spread(weights: readonly number[]): number[] {
  const divisor = weights.reduce(greatestCommonDivisor, 0) || 1
  const shares = weights.map(weight => weight / divisor)
  const total = shares.reduce((sum, share) => sum + share, 0)
  const credit = shares.map(() => 0)
  const slots: number[] = []
  for (let turn = 0; turn < total; turn++) {
    let best = 0
    for (let i = 0; i < shares.length; i++) {
      credit[i]! += shares[i]!
      if (credit[i]! > credit[best]!) best = i
    }
    credit[best]! -= total
    slots.push(best)
  }
  return slots
}

function greatestCommonDivisor(a: number, b: number): number {
  return b === 0 ? a : greatestCommonDivisor(b, a % b)
}
