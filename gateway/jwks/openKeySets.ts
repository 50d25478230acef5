import { isDeepStrictEqual } from 'node:util'
import type { GatewaySettings } from '../../config/settings.ts'
import type { Clock, Log } from '../../config/world.ts'
import type { Changes } from '../changes/changes.ts'
import type { Store } from '../store/store.ts'
import { type Fetching, fetching } from './fetchKeySet.ts'
import { flushes } from './flushes.ts'
import { type KeySet, type KeySetPlace, type KeySets, KeySetUnavailable } from './keySets.ts'

export interface KeySetsGiven {
  readonly store: Pick<Store, 'commit'>
  readonly changes: Changes
  readonly settings: Pick<GatewaySettings, 'jwks'>
  readonly clock: Clock
  readonly log: Log
  /** Sets remembered at most; of more the one that was first asked for leaves. */
  readonly most?: number
}

/** Between two fetches because of an unknown `kid`, and after a fetch that failed. */
const AGAIN_MS = 5_000
/** After a fetch that failed while no set is remembered: requests are being refused. */
const AGAIN_WITHOUT_MS = 1_000
/** How long a set counts beyond its time while the other side is away. */
const STALE_MS = 3_600_000
/** Shorter times would mean a fetch for every request. */
const LEAST_MS = 1_000
/** Before its end a set in use is fetched anew, so that nobody waits; at most a tenth of its time. */
const AHEAD_MS = 10_000

/** What is known of one address, for one API. */
interface Held {
  readonly apiId: string
  /** Null: nothing was fetched yet, or too long ago. */
  set: KeySet | null
  /** From when on a set in use is fetched anew. */
  renewAt: number
  /** Until when the set may count while the other side is away. */
  staleAt: number
  /** The last fetch failed: no other before that time; 0: it did not. */
  retryAt: number
  /** No other fetch because of an unknown `kid` before that time. */
  againAt: number
  underWay: Promise<KeySet> | null
}

export function openKeySets(given: KeySetsGiven): KeySets {
  const { settings, clock, log, most = 1_000 } = given
  const all = new Map<string, Held>()
  const from: Fetching = fetching(clock)
  let epoch = 0
  let isClosed = false
  const flushing = flushes(given, isMeant => {
    epoch++
    for (const [name, { apiId }] of all) if (isMeant === null || isMeant(apiId)) all.delete(name)
  })

  function heldOf(apiId: string, url: string): Held {
    const name = `${apiId}\0${url}`
    const known = all.get(name)
    if (known !== undefined) return known
    if (all.size >= most) all.delete(all.keys().next().value!)
    const held: Held = { apiId, set: null, renewAt: 0, staleAt: 0, retryAt: 0, againAt: 0, underWay: null }
    all.set(name, held)
    return held
  }

  /** One fetch at a time. What was forgotten meanwhile serves those who wait for it, and nobody else. */
  function fetched(held: Held, place: KeySetPlace): Promise<KeySet> {
    held.underWay ??= from
      .keys(place.url)
      .then(
        keys => came(held, place, keys),
        cause => failed(held, place, cause)
      )
      .finally(() => {
        held.underWay = null
      })
    return held.underWay
  }

  function came(held: Held, { url, cacheMs }: KeySetPlace, keys: KeySet['keys']): KeySet {
    const now = clock.now()
    const forMs = Math.max(LEAST_MS, cacheMs || settings.jwks.cache.timeout * 1000)
    const until = now + forMs
    if (held.retryAt > 0) log.info('a key set is fetched again', { api: held.apiId, url: plain(url) })
    // The same keys stay the same objects: what was made of them goes on.
    const isSame = held.set !== null && isDeepStrictEqual(held.set.keys, keys)
    if (held.set !== null && !isSame) epoch++
    held.set = { keys: isSame ? held.set!.keys : keys, until }
    held.renewAt = until - Math.min(AHEAD_MS, forMs / 10)
    held.staleAt = until + STALE_MS
    held.retryAt = 0
    return held.set
  }

  function failed(held: Held, { url }: KeySetPlace, cause: Error): KeySet {
    const now = clock.now()
    if (held.retryAt === 0 && !isClosed)
      log.warn('a key set cannot be fetched', { api: held.apiId, url: plain(url), cause: cause.message })
    const set = held.staleAt > now ? held.set : null
    held.retryAt = now + (set === null ? AGAIN_WITHOUT_MS : AGAIN_MS)
    // Until the next try the old set counts, whatever its time was.
    held.set = set === null || set.until > now ? set : { ...set, until: Math.min(held.retryAt, held.staleAt) }
    if (held.set === null) throw new KeySetUnavailable(`the key set of ${plain(url)} cannot be fetched`)
    return held.set
  }

  return {
    get(apiId, place, missing) {
      const held = heldOf(apiId, place.url)
      const now = clock.now()
      const mayTry = held.underWay !== null || now >= held.retryAt
      const set = held.staleAt > now ? held.set : null
      if (set === null) {
        if (mayTry) return fetched(held, place)
        return Promise.reject(new KeySetUnavailable(`the key set of ${plain(place.url)} cannot be fetched`))
      }
      if (missing !== undefined && mayTry && (held.underWay !== null || now >= held.againAt)) {
        held.againAt = now + AGAIN_MS
        return fetched(held, place)
      }
      if (now < held.renewAt || !mayTry) return set
      const coming = fetched(held, place)
      if (set.until <= now && held.retryAt === 0) return coming
      // Nobody waits for it; whoever comes next gets what came of it.
      coming.catch(() => {})
      return set
    },
    get epoch() {
      return epoch
    },
    forget: apiId => flushing.tell(apiId, clock.now()),
    forgetAll: () => flushing.tell(null, clock.now()),
    close() {
      isClosed = true
      flushing.close()
      from.close()
    }
  }
}

/** Without what may be secret in it. */
function plain(url: string): string {
  const parsed = URL.parse(url)
  return parsed === null ? '' : parsed.origin + parsed.pathname
}
