import type { KeyObject } from 'node:crypto'
import type { Family, JwtScheme, KeySource } from '../../api.ts'
import type { KeySet, KeySetPlace, KeySets } from '../../jwks/keySets.ts'
import { KeySetUnavailable } from '../../jwks/keySets.ts'
import type { Keys, Session } from '../../keys/keys.ts'
import type { Jws } from './compact.ts'
import { keyOfText, keysOfSet, type SetKey, suits } from './keys.ts'

/** The keys that a token may be signed with. */
export interface Candidates {
  readonly keys: readonly KeyObject[]
  /** Until when they count, milliseconds since the epoch. */
  readonly until: number
  /** The key of ours that the token names, where those are the source. */
  readonly owner: Owner | null
  /** Where none of them fits: those that must be waited for; null: there are no others. */
  readonly more: (() => Promise<Candidates>) | null
}

/** A key of ours whose secret verifies tokens (`jwt_data.secret`). */
export interface Owner {
  readonly name: string
  readonly secret: string
}

export type FindKeys = (jws: Jws) => Candidates | Promise<Candidates>

/** Keys that are tried at most, where a token does not say which. */
const MOST_TRIED = 10
/** Tokens that wait for sets at once: others, whose keys are there, must not wait behind them. */
const MOST_WAITING = 1_000
const NONE: Candidates = { keys: [], until: Number.POSITIVE_INFINITY, owner: null, more: null }

/** @throws KeySetUnavailable (its answers reject with it) */
export function keysOf(
  { keys: source, family, skipKid }: Pick<JwtScheme, 'keys' | 'family' | 'skipKid'>,
  { id, orgId }: { readonly id: string; readonly orgId: string },
  { keySets, keys }: { readonly keySets: Pick<KeySets, 'get'>; readonly keys: Pick<Keys, 'find'> }
): FindKeys {
  switch (source.is) {
    case 'sets':
      return inSets(source.sets, family, (place, missing) => keySets.get(id, place, missing))
    case 'pem':
    case 'secret': {
      const key = keyOfText(source.is === 'pem' ? source.pem : source.secret, family)
      return ({ alg }) => (key !== null && suits(key, alg) ? { ...NONE, keys: [key] } : NONE)
    }
    case 'key':
      return ofOwner(family, skipKid, name => keys.find(orgId, name))
  }
}

type Sets = (KeySource & { is: 'sets' })['sets']

function inSets(
  places: Sets,
  family: Family,
  get: (place: KeySetPlace, missing?: string) => KeySet | Promise<KeySet>
): FindKeys {
  // A set that was fetched anew with the same keys has the same list.
  const usable = new WeakMap<KeySet['keys'], readonly SetKey[]>()
  const keysIn = ({ keys }: KeySet): readonly SetKey[] => {
    const known = usable.get(keys)
    if (known !== undefined) return known
    const read = keysOfSet(keys, family)
    usable.set(keys, read)
    return read
  }

  function candidates({ alg, kid }: Jws, sets: readonly KeySet[]): Candidates {
    const found: KeyObject[] = []
    let until = Number.POSITIVE_INFINITY
    for (const set of sets) {
      until = Math.min(until, set.until)
      for (const each of keysIn(set))
        if (mayMean(each.kid, kid) && (each.alg ?? alg) === alg && suits(each.key, alg)) found.push(each.key)
    }
    return { keys: found.slice(0, MOST_TRIED), until, owner: null, more: null }
  }

  async function waited(jws: Jws, known: readonly (KeySet | Promise<KeySet>)[]): Promise<Candidates> {
    const { kid } = jws
    // What is being fetched anyhow has it neither a moment later; what is at hand may have got it since.
    const coming = kid === null ? known : known.map((set, i) => (isThere(set) ? get(places[i]!, kid) : set))
    const settled = Promise.allSettled(coming)
    const first = kid === null ? null : await firstWith(kid, coming)
    if (first === null) return whole(jws, await settled)
    // Another one may have a key of the same id.
    return { ...candidates(jws, [first]), more: () => inTurn(async () => whole(jws, await settled, 'none fits')) }
  }

  /** All that came; `none fits`: of what was tried before. */
  function whole(jws: Jws, all: readonly PromiseSettledResult<KeySet>[], before?: 'none fits'): Candidates {
    const found = candidates(
      jws,
      all.flatMap(each => (each.status === 'fulfilled' ? [each.value] : []))
    )
    const lost = all.find(each => each.status === 'rejected')
    // The missing key may be in the set that cannot be had.
    if (lost === undefined) return found
    if (before === 'none fits' || found.keys.length === 0 || !(lost.reason instanceof KeySetUnavailable))
      throw lost.reason
    return found
  }

  let waiting = 0
  async function inTurn(wait: () => Promise<Candidates>): Promise<Candidates> {
    if (waiting >= MOST_WAITING) throw new KeySetUnavailable('too many tokens wait for key sets')
    waiting++
    try {
      return await wait()
    } finally {
      waiting--
    }
  }

  return jws => {
    const known = places.map(place => get(place))
    if (known.every(isThere)) return hasKid(known, jws.kid) ? candidates(jws, known) : inTurn(() => waited(jws, known))
    // They go on for others; that nobody listens here is no fault.
    for (const set of known) if (!isThere(set)) set.catch(() => {})
    const there = known.filter(isThere)
    if (there.length === 0 || !hasKid(there, jws.kid)) return inTurn(() => waited(jws, known))
    // Any other set may have the key, be it without a kid or with another's.
    const more = () => inTurn(async () => whole(jws, await Promise.allSettled(known), 'none fits'))
    return { ...candidates(jws, there), more }
  }
}

/** Whichever comes first and has a key of this id: the others may take their time. Null: none has. */
function firstWith(kid: string, coming: readonly (KeySet | Promise<KeySet>)[]): Promise<KeySet | null> {
  const having = coming.map(async coming => {
    const set = await coming
    if (!hasKid([set], kid)) throw new Error('it is in another one')
    return set
  })
  return Promise.any(having).catch(() => null)
}

const isThere = (set: KeySet | Promise<KeySet>): set is KeySet => !(set instanceof Promise)

/** A key may be the one that a token means: neither must have an id (RFC 7515 §4.1.4, RFC 7517 §4.5). */
function mayMean(kid: string | null, asked: string | null): boolean {
  return asked === null || kid === null || kid === asked
}

/** Some key may be meant; a token without an id asks for none. */
function hasKid(sets: readonly KeySet[], kid: string | null): boolean {
  return kid === null || sets.some(({ keys }) => keys.some(key => key.kid === undefined || key.kid === kid))
}

/** One to one (semantics §6.6): the header's `kid`, or `sub`, is the id of a key of ours. */
function ofOwner(
  family: Family,
  skipKid: boolean,
  find: (name: string) => Session | null | Promise<Session | null>
): FindKeys {
  // Sessions are made anew whenever their key changes.
  const read = new WeakMap<Session, KeyObject>()
  const candidates = ({ alg }: Jws, name: string, session: Session | null): Candidates => {
    const secret = secretOf(session)
    if (session === null || secret === null) return NONE
    const key = read.get(session) ?? keyOfText(secret, family)
    if (key === null || !suits(key, alg)) return NONE
    read.set(session, key)
    return { ...NONE, keys: [key], owner: { name, secret } }
  }
  return jws => {
    const name = (skipKid ? null : jws.kid) || jws.claims.sub
    if (typeof name !== 'string' || name === '') return NONE
    const found = find(name)
    return found instanceof Promise
      ? found.then(session => candidates(jws, name, session))
      : candidates(jws, name, found)
  }
}

/** Null: it has none. */
export function secretOf(session: Session | null): string | null {
  return session?.key.jwt_data?.secret || null
}
