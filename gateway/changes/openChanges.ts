import type { Clock, Log } from '../../config/world.ts'
import type { RedisLink } from '../redis/redis.ts'
import type { Store } from '../store/store.ts'
import type { Changes } from './changes.ts'
import { changesFollowing } from './changesFollowing.ts'
import { changesLocal } from './changesLocal.ts'
import { changesRedis } from './changesRedis.ts'

export interface OpenChangesGiven {
  /** Where documents lie, if other processes write there too; null: they are this process's alone. */
  readonly documents: Pick<Store, 'sequence' | 'since' | 'stand'> | null
  /** Where keys lie, if elsewhere; null: with the documents. */
  readonly keys: Pick<Store, 'sequence' | 'since' | 'stand'> | null
  /** Null: there is no Redis, so stores are asked more often. */
  readonly link: Pick<RedisLink, 'prefix' | 'publish' | 'subscribe'> | null
  /** `storage.documents.max_stale`, in milliseconds. */
  readonly maxStaleMs: number
  readonly clock: Clock
  readonly log: Log
}

/** One port for the changes of all stores. @throws Unavailable when one of them cannot be asked where it stands */
export async function openChanges({ documents, keys, link, ...given }: OpenChangesGiven): Promise<Changes> {
  const bell = (of: 'documents' | 'keys') => (link === null ? {} : { bell: changesRedis({ link, of }) })
  const holds = keys === null ? 'all' : 'others'
  const changes =
    documents === null
      ? changesLocal()
      : await changesFollowing({ ...given, store: documents, holds, ...bell('documents') })
  if (keys === null) return changes
  try {
    return await changesFollowing({ ...given, store: keys, holds: 'keys', ...bell('keys'), onto: changes })
  } catch (cause) {
    await changes.close()
    throw cause
  }
}
