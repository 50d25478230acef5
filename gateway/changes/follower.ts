import type { Clock, Log } from '../../config/world.ts'
import type { Change, Kind, Sequence, Store } from '../store/store.ts'
import type { Bell } from './bell.ts'

export type Told = readonly Change[] | null

export interface FollowerGiven {
  readonly store: Pick<Store, 'sequence' | 'since'>
  readonly clock: Clock
  readonly log: Log
  readonly bell: Bell | undefined
  /** 0: never. */
  readonly maxStaleMs: number
  readonly kinds: readonly Kind[]
  /** What to tell when anything may have changed. */
  readonly lost: Told
  /** What to tell when no look has succeeded for `maxStaleMs`. */
  readonly stale: Told
  /** Resolves once it was taken over; what it rejects is told again. */
  tell(changes: Told): Promise<void>
  /** All changes up to there were told. */
  passed(position: Sequence): void
}

export interface Follower {
  /** How far the store was read. */
  readonly position: Sequence
  /** Ends after what is being told. */
  close(): Promise<void>
}

/** Between two looks: a write elsewhere is to count here within a second, also when a bell was not heard. */
const LOOK_MS = 250
const LOOK_WITH_BELL_MS = 500
/** Between two looks at least, however often it rings: an import rings a thousand times a second. */
const GAP_MS = 50
/** Told at once at most; nobody would be faster by so many ids than by reading anew. */
const MOST_CHANGES = 50_000

/** Reads on in a store where it stood, and tells. @throws Unavailable when the store cannot be asked where it stands */
export async function follower(given: FollowerGiven): Promise<Follower> {
  const { store, clock, log, bell, maxStaleMs, kinds, lost, stale, tell } = given
  const lookMs = bell === undefined ? LOOK_MS : LOOK_WITH_BELL_MS
  let position = await store.sequence()
  let looking: Promise<void> | null = null
  let lookedAt = Number.NEGATIVE_INFINITY
  let heardAt = clock.now()
  let cancelLook = () => {}
  let cancelAge = () => {}
  let rang = false
  let isFailing = false
  let isStale = false
  let isClosed = false

  // APIs take seconds to compile when there are many of them: keys that are revoked meanwhile do not wait for that.
  let due = new Map<string, Change>()
  let isAllDue = false
  const telling = new Set<Promise<void>>()
  let isBehind = false

  function tellDue(): void {
    if (isClosed || (!isAllDue && due.size === 0)) return
    // That everything is void is told although APIs are still being taken over.
    if (telling.size >= (isAllDue ? 2 : 1)) return
    const some = isAllDue ? null : [...due.values()]
    isAllDue = false
    due = new Map()
    const told = tell(some)
      .then(
        () => {
          isBehind = false
        },
        cause => {
          if (!isBehind) log.error('changes of other processes cannot be taken over', { cause: String(cause) })
          isBehind = true
          if (some === null) isAllDue = true
          else for (const one of some) if (!due.has(one.id)) due.set(one.id, one)
        }
      )
      .then(() => {
        telling.delete(told)
        // What failed is for the next look.
        if (!isBehind) tellDue()
      })
    telling.add(told)
  }

  async function look(): Promise<void> {
    // Asked first: what `since` leaves out, as nobody watches its kind, is passed all the same.
    const newest = await store.sequence()
    let changes: readonly Change[] | null = []
    // It may be another than before: who was away for so long does not trust its numbers.
    if (isStale) changes = null
    else if (newest !== position) changes = await store.since(position, kinds)
    if (changes === null || changes.length > MOST_CHANGES) {
      if (!isStale) log.warn('documents changed beyond what can be told: everything is read anew', { position, newest })
      if (lost === null) isAllDue = true
      else await tell(lost)
    } else if (changes.length > 0) {
      const quick = changes.filter(({ kind }) => kind !== 'api')
      if (quick.length > 0) await tell(quick)
      for (const one of changes) if (one.kind === 'api') due.set(one.id, one)
    }
    position = Math.max(newest, changes?.at(-1)?.sequence ?? 0)
    given.passed(position)
    tellDue()
  }

  function heard(): void {
    if (isStale) log.info('documents in memory are compared with the store again')
    else if (isFailing) log.info('changes of other processes are heard again')
    isFailing = false
    isStale = false
    heardAt = clock.now()
  }

  function unheard(cause: unknown): void {
    if (!isFailing && !isClosed) log.error('changes of other processes cannot be heard', { cause: String(cause) })
    isFailing = true
  }

  function start(): void {
    rang = false
    lookedAt = clock.now()
    looking = look()
      .then(heard, unheard)
      .then(() => {
        looking = null
        next(rang ? GAP_MS : lookMs)
      })
  }

  function next(ms: number): void {
    cancelLook()
    if (!isClosed) cancelLook = clock.after(ms, start)
  }

  function age(): void {
    const left = heardAt + maxStaleMs - clock.now()
    cancelAge = clock.after(left > 0 ? left : maxStaleMs, age)
    if (left > 0) return
    if (!isStale) {
      const forgotten = stale?.map(({ kind }) => kind)
      log.warn('changes unheard for too long: what is in memory is no longer believed', { forgotten })
    }
    isStale = true
    // Who was told before may have read something since that nobody can confirm either.
    tell(stale).catch(cause => log.error('what is in memory cannot be forgotten', { cause: String(cause) }))
  }

  const stop = bell?.listen(sequence => {
    if (isClosed || rang || (sequence !== null && sequence <= position)) return
    rang = true
    if (looking === null) next(Math.max(0, lookedAt + GAP_MS - clock.now()))
  })
  next(lookMs)
  if (maxStaleMs > 0) cancelAge = clock.after(maxStaleMs, age)

  return {
    get position() {
      return position
    },
    async close() {
      isClosed = true
      stop?.()
      cancelLook()
      cancelAge()
      await looking
      await Promise.all(telling)
    }
  }
}
