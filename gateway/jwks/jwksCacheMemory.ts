import type { Clock } from '../../config/world.ts'
import type { JwksCache, KeySet } from './jwksCache.ts'

/** Key sets of one process. Of more than `most` the one that was set first leaves. */
export function jwksCacheMemory({ clock, most = 1000 }: { clock: Pick<Clock, 'now'>; most?: number }): JwksCache {
  const sets = new Map<string, { readonly apiId: string; readonly set: KeySet; readonly until: number }>()
  const nameOf = (...of: [apiId: string, url: string]) => JSON.stringify(of)
  let epoch = 0

  return {
    get(apiId, url) {
      const name = nameOf(apiId, url)
      const known = sets.get(name)
      if (known === undefined) return null
      if (known.until > clock.now()) return known.set
      sets.delete(name)
      return null
    },
    set(apiId, url, set, given) {
      if (given.epoch !== epoch) return
      const name = nameOf(apiId, url)
      sets.delete(name)
      if (sets.size >= most) sets.delete(sets.keys().next().value!)
      sets.set(name, { apiId, set, until: clock.now() + given.forMs })
    },
    get epoch() {
      return epoch
    },
    forget(apiId) {
      epoch++
      for (const [name, known] of sets) if (known.apiId === apiId) sets.delete(name)
    },
    forgetAll() {
      epoch++
      sets.clear()
    }
  }
}
