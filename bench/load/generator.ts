import { autocannon } from './generators/autocannon.ts'
import { h2load } from './generators/h2load.ts'
import type { Load, Measured } from './generators/load.ts'
import { wrk } from './generators/wrk.ts'
import { installed } from './machine.ts'

export type { Load, Measured } from './generators/load.ts'

/**
 * Sends a load from the generator's core. wrk is the fastest, but can neither hold a rate nor count: h2load does, and
 * autocannon (from the packages) whatever is left.
 */
export function generate(load: Load): Promise<Measured> {
  const counts = load.rate !== undefined || load.amount !== undefined
  const plain = load.tokens === undefined && load.post === undefined
  if (!counts && installed('wrk') !== null) return wrk(load)
  if (counts && plain && installed('h2load') !== null) return h2load(load)
  return autocannon(load)
}
