import type { Count } from './store.ts'

/**
 * Whether a count goes over the one that is kept (`Write`'s `raise`): of an earlier period, or lower in the same one.
 * @param kept null: there is none
 */
export function raises(kept: Count | null, { count, renews }: Count): boolean {
  if (kept === null) return true
  if (kept.renews === renews) return kept.count < count
  return kept.renews !== 0 && (renews === 0 || kept.renews < renews)
}
