import { hash } from 'node:crypto'
import type { Changes } from '../changes/changes.ts'
import type { Store } from '../store/store.ts'

/**
 * How processes and threads tell each other to forget key sets: a document of the kind `flush`, written again each time,
 * whose change they hear. There is one for each API ever named, under its hash as ids may be anything, and one for all.
 */

const ALL = 'jwks all'

export function flushId(apiId: string): string {
  return `jwks ${hash('sha256', apiId, 'hex')}`
}

export interface Flushes {
  /** @param apiId null: all. Resolves once this process has heard it; others do soon. @throws Unavailable while the store is away */
  tell(apiId: string | null, at: number): Promise<void>
  close(): void
}

/** @param heard null: all APIs; else tells whether an API is meant */
export function flushes(
  { store, changes }: { store: Pick<Store, 'commit'>; changes: Changes },
  heard: (isMeant: ((apiId: string) => boolean) | null) => void
): Flushes {
  const close = changes.listen(all => {
    if (all === null) return heard(null)
    const ids = new Set(all.filter(({ kind }) => kind === 'flush').map(({ id }) => id))
    if (ids.size === 0) return
    if (ids.has(ALL)) heard(null)
    else heard(apiId => ids.has(flushId(apiId)))
  })
  return {
    async tell(apiId, at) {
      const id = apiId === null ? ALL : flushId(apiId)
      const sequence = await store.commit([{ kind: 'flush', id, org: '', body: { at } }])
      await changes.publish([{ sequence, kind: 'flush', id, deleted: false }])
    },
    close
  }
}
