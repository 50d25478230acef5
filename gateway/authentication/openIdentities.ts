import { isDeepStrictEqual } from 'node:util'
import type { Key } from '../../config/shape/key.ts'
import type { Clock, Log } from '../../config/world.ts'
import { anyId, type Changes } from '../changes/changes.ts'
import type { KeyRecord, Keys, Session } from '../keys/keys.ts'
import type { Applied } from '../keys/merge.ts'
import type { Policies } from '../keys/policies.ts'
import { Recent } from '../keys/recent.ts'
import { customId } from '../keys/token.ts'
import { type Refusal, refusal } from '../refusals.ts'
import { type Document, type Store, Unavailable } from '../store/store.ts'
import { AGAIN_MS, dueAt, type Held, heldOf, isOwn, keyFor, nameOf, policiesFor } from './heldIdentity.ts'
import type { Identities, Identity, Standing } from './identities.ts'
import { areSame, endOf, identityId, policiesOf, touchAt } from './identityKeys.ts'
import { policyRefusals } from './jwt/policies.ts'
import { SweepIdentities } from './sweepIdentities.ts'
import { WriteIdentities } from './writeIdentities.ts'

export interface IdentitiesGiven {
  readonly store: Store
  readonly changes: Changes
  readonly keys: Keys
  readonly policies: Policies
  readonly clock: Clock
  readonly log: Log
  /** Sessions held at most; each takes some 3 KB. */
  readonly most?: number
}

/** Look-ups that wait for the store at once. */
const MOST_WAITING = 1_000
/** After so long a session that could not be queued is tried again. */
const FULL_MS = 1_000

const unnamed = refusal('identity_unnamed', 403, 'no suitable claims for user ID were found')

/** A look-up that waits for the store. */
interface Wait {
  readonly id: string
  readonly answer: Promise<Held>
  /** The document changed meanwhile: what comes is not remembered. */
  isVoid: boolean
}

/** What a session was made of, for those who hold it for as long as a connection lasts. */
interface Origin {
  readonly key: Key
  /** Null: those that its key has. */
  readonly policies: readonly string[] | null
  readonly ask: (session: Session, origin: Origin) => Promise<Standing>
}

const origins = new WeakMap<Session, Origin>()

/** Null: no `Identities` made this session. @throws Unavailable (rejects with it) */
export function standingOf(session: Session): Promise<Standing> | null {
  const origin = origins.get(session)
  return origin === undefined ? null : origin.ask(session, origin)
}

export function openIdentities(given: IdentitiesGiven): Identities {
  return new OpenIdentities(given)
}

class OpenIdentities implements Identities {
  readonly #given: IdentitiesGiven
  readonly #byId = new Map<string, Held>()
  readonly #known: Recent<Held>
  readonly #waits = new Map<string, Wait>()
  readonly #writing: WriteIdentities
  readonly #sweeping: SweepIdentities
  readonly #stop: () => void
  #changes = 0

  constructor(given: IdentitiesGiven) {
    const { store, changes, clock, log, most = 30_000 } = given
    this.#given = given
    this.#known = new Recent(most, held => {
      if (this.#byId.get(held.id) === held) this.#byId.delete(held.id)
    })
    this.#sweeping = new SweepIdentities({ store, changes, clock, log })
    this.#writing = new WriteIdentities({
      ...{ store, changes, clock, log },
      onConflict: ({ id }) => this.#forget(id, Number.POSITIVE_INFINITY),
      onWritten: () => this.#sweeping.plan()
    })
    this.#stop = changes.listen(all => {
      if (all === null) this.#forgetAll()
      else
        for (const { kind, id, sequence } of all) {
          if (kind !== 'key') continue
          if (id === anyId) this.#forgetAll()
          else this.#forget(id, sequence)
        }
    })
  }

  get version(): number {
    return this.#changes + this.#given.policies.epoch
  }

  isKept(org: string, name: string): boolean | Promise<boolean> {
    const held = this.#known.get(nameOf(org, name))
    if (held !== undefined) return held.record !== null
    const found = this.#given.store.get('key', customId(org, identityId(name)))
    return found instanceof Promise ? found.then(isThere) : isThere(found)
  }

  session(identity: Identity): Session | Refusal | Promise<Session | Refusal> {
    const name = nameOf(identity.org, identity.name)
    const held = this.#known.get(name)
    return held === undefined ? this.#look(name, identity) : this.#current(held, identity)
  }

  async close(): Promise<void> {
    this.#stop()
    await this.#writing.close()
    await this.#sweeping.close()
  }

  #current(held: Held, identity: Identity): Session | Refusal | Promise<Session | Refusal> {
    const { session, dueMs } = held
    const policies = policiesFor(held, identity)
    const { policies: ofAll, clock } = this.#given
    if (
      session !== null &&
      held.epoch === ofAll.epoch &&
      identity.until <= held.untilMs &&
      (policies === null || areSame(policies, held.policies)) &&
      (dueMs === Number.POSITIVE_INFINITY || clock.now() < dueMs)
    )
      return session
    return this.#renew(held, identity, policies)
  }

  #look(name: string, identity: Identity): Session | Refusal | Promise<Session | Refusal> {
    if (!identity.name.isWellFormed()) return unnamed
    const under = this.#waits.get(name)
    if (under !== undefined) return under.answer.then(held => this.#current(held, identity))
    const { org } = identity
    if (this.#waits.size >= MOST_WAITING) throw new Unavailable('too many look-ups of callers wait for the store')
    const held = this.#read(name, customId(org, identityId(identity.name)), org)
    return held instanceof Promise ? held.then(late => this.#current(late, identity)) : this.#current(held, identity)
  }

  /** From the store into memory; who asks meanwhile waits for the same. */
  #read(name: string, id: string, org: string): Held | Promise<Held> {
    const found = this.#given.store.get<KeyRecord>('key', id)
    if (!(found instanceof Promise)) return this.#remember(heldOf(name, id, org, found))
    const end = () => {
      if (this.#waits.get(name) === wait) this.#waits.delete(name)
    }
    const answer = found.then(
      document => {
        end()
        const held = heldOf(name, id, org, document)
        return wait.isVoid ? held : this.#remember(held)
      },
      cause => {
        end()
        throw cause
      }
    )
    const wait: Wait = { id, answer, isVoid: false }
    this.#waits.set(name, wait)
    return answer
  }

  #remember(held: Held): Held {
    this.#known.set(held.name, held)
    this.#byId.set(held.id, held)
    return held
  }

  /** @param policies as `policiesFor` tells */
  #renew(
    held: Held,
    identity: Identity,
    policies: readonly string[] | null
  ): Session | Refusal | Promise<Session | Refusal> {
    const { clock, keys, policies: ofAll } = this.#given
    const now = clock.now()
    if (held.record === null && policies === null) return policyRefusals.noPolicyFound
    const { epoch } = ofAll
    const { key, isDue } = keyFor(held, identity, policies, now)
    const applied = keys.applied(identity.org, key)
    const end = (ready: Applied) => this.#applied(held, identity, { key, isDue, epoch, now }, ready)
    return applied instanceof Promise ? applied.then(end) : end(applied)
  }

  #applied(
    held: Held,
    identity: Identity,
    { key, isDue, epoch, now }: { key: Key; isDue: boolean; epoch: number; now: number },
    applied: Applied
  ): Session | Refusal | Promise<Session | Refusal> {
    if ('problem' in applied) return this.#unfit(identity.org, key)
    const { keys } = this.#given
    const isOurs = isOwn(held)
    // The policies alone would decide (semantics §4.6): who switches a caller off means this caller.
    const made = key.is_inactive === true ? { ...applied.key, is_inactive: true } : applied.key
    const session = keys.session(held.id, identity.org, made, key.last_updated, isOurs)
    const isAsWritten = !isOurs && areSame(policiesOf(key), policiesOf(held.record!.key))
    origins.set(session, { key, policies: isAsWritten ? null : policiesOf(key), ask: this.#standing })
    if (!isOurs && now >= session.goneMs) {
      // Somebody's key counts as deleted: the session takes its place.
      held.record = null
      return this.#current(held, identity)
    }
    held.session = session
    held.epoch = epoch
    held.policies = policiesOf(key)
    held.untilMs = isOurs ? endOf(key) : Number.POSITIVE_INFINITY
    if (!isOurs) held.dueMs = session.goneMs
    if (!isOurs) return session
    held.record = { name: identityId(identity.name), generated: false, isIdentity: true, key }
    if (isDue) held.dueMs = this.#writing.queue(held) ? touchAt(key, AGAIN_MS) : now + FULL_MS
    else held.dueMs = dueAt(held, key)
    return session
  }

  readonly #standing = async (session: Session, origin: Origin): Promise<Standing> => {
    const { store, keys } = this.#given
    const { hash, orgId } = session
    const isIdentity = session.proof === 'identity'
    const document = await store.get<KeyRecord>('key', hash)
    const isKept = document !== null && document.org === orgId && (document.body.isIdentity === true) === isIdentity
    const key = isKept ? document.body.key : origin.key
    if (isIdentity && key.is_inactive === true) return { isKept, isSame: false }
    const { policies } = origin
    const applied = await keys.applied(orgId, policies === null ? key : { ...key, apply_policies: [...policies] })
    const isSame = 'key' in applied && isDeepStrictEqual(whatCounts(applied.key), whatCounts(session.key))
    return { isKept, isSame }

    /** Each token of a caller prolongs its session, and whoever was first has made it. */
    function whatCounts(given: Key): Key {
      return isIdentity ? { ...given, date_created: '', expires: 0, last_updated: '', session_lifetime: 0 } : given
    }
  }

  /** Why policies cannot be applied (semantics §6.2, §6.6). */
  #unfit(org: string, key: Key): Refusal | Promise<Refusal> {
    const { policies } = this.#given
    const named = policies.of(key, org)
    const told = (all: Awaited<typeof named>): Refusal => {
      const isStrange = all.some(({ policy }) => policy === null || (policy.org_id || 'default') !== org)
      if (isStrange) return policyRefusals.noPolicy
      return all.length > 1 ? policyRefusals.policiesUnfit : policyRefusals.policyUnfit
    }
    return named instanceof Promise ? named.then(told) : told(named)
  }

  #forget(id: string, sequence: number): void {
    const held = this.#byId.get(id)
    // What was written here is told to everybody.
    if (held === undefined || held.sequence < sequence) this.#changes++
    if (held !== undefined && held.sequence < sequence) this.#known.delete(held.name)
    for (const [name, wait] of this.#waits) {
      if (wait.id !== id) continue
      wait.isVoid = true
      this.#waits.delete(name)
    }
    // Read at once: tokens prolong sessions all the time, and who is active should be in memory when the store goes away.
    if (held === undefined || held.sequence >= sequence || this.#waits.size >= MOST_WAITING) return
    try {
      const read = this.#read(held.name, held.id, held.org)
      if (read instanceof Promise) read.catch(() => {})
    } catch (cause) {
      if (!(cause instanceof Unavailable)) throw cause
    }
  }

  #forgetAll(): void {
    this.#changes++
    this.#known.clear()
    for (const wait of this.#waits.values()) wait.isVoid = true
    this.#waits.clear()
  }
}

function isThere(document: Document | null): boolean {
  return document !== null
}
