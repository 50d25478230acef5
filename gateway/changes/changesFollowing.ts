import type { Clock, Log } from '../../config/world.ts'
import type { Kind, Sequence, Store } from '../store/store.ts'
import type { Changes } from './changes.ts'
import { changesLocal } from './changesLocal.ts'

export interface FollowingGiven {
  readonly store: Pick<Store, 'sequence' | 'since'>
  readonly clock: Clock
  readonly log: Log
}

/** Between two looks: a write elsewhere is to count here within a second. */
const LOOK_MS = 250
/** Told at once at most; nobody would be faster by so many ids than by reading anew. */
const MOST_CHANGES = 50_000

/** Whether somebody may hold such documents in memory. */
const held: Record<Kind, boolean> = {
  key: true,
  policy: true,
  api: true,
  organisation: true,
  asset: true,
  user: true,
  group: true,
  access: true,
  name: true,
  certificate: true,
  hook: true,
  portal_organisation: true,
  portal_user: true,
  ledger: false,
  audit: false,
  revision: false,
  stream_log: false
}
const watched = (Object.keys(held) as Kind[]).filter(kind => held[kind])

/**
 * Changes of all processes that share a store: this process's own at once, the others' by asking the store for its
 * sequence several times a second. While the store is away nothing is told; afterwards it goes on where it stood.
 * @throws Unavailable when the store cannot be asked where it stands
 */
export async function changesFollowing({ store, clock, log }: FollowingGiven): Promise<Changes> {
  const local = changesLocal()
  /** Own changes that `since` will name again, by kind and id. */
  const told = new Map<string, Sequence>()
  let position = await store.sequence()
  let cancel = () => {}
  let looking: Promise<void> = Promise.resolve()
  let isClosed = false
  let isFailing = false

  async function look(): Promise<void> {
    // Asked first: what `since` leaves out, as nobody watches its kind, is passed all the same.
    const newest = await store.sequence()
    if (newest === position) return
    const changes = await store.since(position, watched)
    if (changes === null || changes.length > MOST_CHANGES) {
      log.warn('documents changed beyond what can be told: everything is read anew', { position, newest })
      await local.publish(null)
      told.clear()
    } else {
      const foreign = changes.filter(({ kind, id, sequence }) => (told.get(nameOf(kind, id)) ?? 0) < sequence)
      if (foreign.length > 0) await local.publish(foreign)
    }
    position = Math.max(newest, changes?.at(-1)?.sequence ?? 0)
    for (const [name, sequence] of told) if (sequence <= position) told.delete(name)
  }

  function next(): void {
    if (isClosed) return
    cancel = clock.after(LOOK_MS, () => {
      looking = look()
        .then(
          () => {
            if (isFailing) log.info('changes of other processes are heard again')
            isFailing = false
          },
          cause => {
            if (!isFailing && !isClosed)
              log.error('changes of other processes cannot be heard', { cause: String(cause) })
            isFailing = true
          }
        )
        .then(next)
    })
  }
  next()

  return {
    async publish(changes) {
      await local.publish(changes)
      // Only now: what a listener could not take over is told again.
      for (const { kind, id, sequence } of changes ?? []) if (sequence > position) told.set(nameOf(kind, id), sequence)
    },
    listen: local.listen,
    async close() {
      isClosed = true
      cancel()
      await looking
      await local.close()
    }
  }
}

function nameOf(kind: Kind, id: string): string {
  return `${kind}\n${id}`
}
