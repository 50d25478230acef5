import type { Clock, Log } from '../../config/world.ts'
import type { Change, Kind, Sequence, Stand, Store } from '../store/store.ts'
import type { Bell } from './bell.ts'

export type Told = readonly Change[] | null

export interface FollowerGiven {
  readonly store: Pick<Store, 'sequence' | 'since' | 'stand'>
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
  /** All changes up to there were told; infinite: sequences of before say nothing any more. */
  passed(position: Sequence): void
}

export interface Follower {
  /** How far the store was read. */
  readonly position: Sequence
  /** How often everything was void. */
  readonly voids: number
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
  const stand = async (): Promise<Stand> =>
    store.stand === undefined ? { sequence: await store.sequence(), origin: '' } : store.stand()
  let { sequence: position, origin } = await stand()
  let voids = 0
  /** The store could not be asked: it may have lost writes meanwhile, and made others with the same sequences. */
  let isVoid = false
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

  /** What is new; null: nobody can say. */
  async function readOn(): Promise<{ now: Stand; changes: Told }> {
    try {
      // Asked first: what `since` leaves out, as nobody watches its kind, is passed all the same.
      const now = await stand()
      // Of a store that was empty nothing can be lost.
      const isOther = now.origin !== origin && position > 0
      if (isOther && !isVoid) log.warn('the store was restarted or is another: everything is read anew')
      isVoid ||= isOther
      if (isVoid || isStale) return { now, changes: null }
      const changes = now.sequence === position ? [] : await store.since(position, kinds)
      if (changes === null || changes.length > MOST_CHANGES)
        log.warn('documents changed beyond what can be told: everything is read anew', {
          position,
          newest: now.sequence
        })
      return { now, changes }
    } catch (cause) {
      isVoid = true
      throw cause
    }
  }

  async function look(): Promise<void> {
    const { now, changes } = await readOn()
    if (changes === null || changes.length > MOST_CHANGES) {
      if (lost === null) isAllDue = true
      else await tell(lost)
    } else if (changes.length > 0) {
      const quick = changes.filter(({ kind }) => kind !== 'api')
      if (quick.length > 0) await tell(quick)
      for (const one of changes) if (one.kind === 'api') due.set(one.id, one)
    }
    position = Math.max(now.sequence, changes?.at(-1)?.sequence ?? 0)
    origin = now.origin
    isVoid = false
    if (changes === null) voids++
    given.passed(changes === null ? Number.POSITIVE_INFINITY : position)
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
    get voids() {
      return voids
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
