import type { GatewaySettings } from '../../config/settings.ts'
import type { Key } from '../../config/shape/key.ts'
import type { Clock } from '../../config/world.ts'
import { anyId, type Changes } from '../changes/changes.ts'
import { type Document, type Store, Unavailable } from '../store/store.ts'
import { goneAt } from './lifetime.ts'
import { type Applied, applyPolicies } from './merge.ts'
import type { Policies } from './policies.ts'
import { Recent } from './recent.ts'
import { Session, type SessionTools } from './session.ts'
import { customId, idFault, longestId, tokenId } from './token.ts'

export type { Charges, EndpointLimit, Grant } from './grant.ts'
export { type Proof, Session } from './session.ts'

/** Body of a stored `key` document; its id is `tokenId` or `customId`. */
export interface KeyRecord {
  /** The custom id; the token only when keys are not hashed; null: nobody knows it but its owner. */
  readonly name: string | null
  /** Its token was made by us. */
  readonly generated: boolean
  /** As it was written, without its policies. */
  readonly key: Key
  /** It was made of a verified token of somebody else's (`Identities`): its id opens nothing by itself. */
  readonly isIdentity?: true
}

export interface KeysTools {
  readonly store: Pick<Store, 'get'>
  readonly policies: Pick<Policies, 'get' | 'of' | 'epoch'>
  readonly changes: Pick<Changes, 'listen'>
  readonly clock: Pick<Clock, 'now'>
  readonly settings: GatewaySettings
}

/** Sessions held at most; each takes some 2 KB. */
const SESSIONS = 30_000
/** Unknown credentials remembered at most. */
const UNKNOWN = 20_000
/** How long an unknown credential is not asked for again; a key that is created ends it at once. */
const UNKNOWN_MS = 3_000
/** Look-ups that wait for the store at once. */
const MOST_WAITING = 1_000

/** What was found for a credential in one organisation. */
interface Found {
  /** The credential itself; or behind its organisation and NUL, when another organisation has it too. */
  readonly name: string
  readonly isShared: boolean
  readonly org: string
  /** Storage ids whose change makes it void. */
  readonly ids: readonly string[]
  /** Null: nothing of this name, at the time `at`. */
  readonly document: Document<KeyRecord> | null
  /** Null: unknown, or the key's policies cannot be applied. */
  readonly session: Session | null
  /** Of the policies that were applied. */
  readonly epoch: number
  /** Milliseconds since the epoch. */
  readonly at: number
}

/** A look-up that waits for the store. */
interface Wait {
  readonly ids: readonly string[]
  answer: Promise<Session | null> | null
  /** A document changed while we waited: the answer is not remembered. */
  isVoid: boolean
}

/** The look-up of keys for the request path; knows what was used lately, and forgets what was changed. */
export class Keys {
  readonly #store: KeysTools['store']
  readonly #policies: KeysTools['policies']
  readonly #clock: KeysTools['clock']
  readonly #sessionTools: SessionTools
  readonly #byId = new Map<string, Found>()
  readonly #known: Recent<Found>
  readonly #unknown: Recent<Found>
  readonly #waits = new Map<string, Wait>()
  readonly #stop: () => void

  constructor({ store, policies, changes, clock, settings }: KeysTools) {
    this.#store = store
    this.#policies = policies
    this.#clock = clock
    this.#sessionTools = {
      habits: {
        algorithm: settings.rate_limiter,
        countsRefused: settings.sliding_log_counts_refused,
        smoothing: settings.enable_rate_limit_smoothing
      },
      matching: { matching: settings.endpoint_matching, ignoreCase: false },
      patterned: new Recent(10_000),
      allowMasterKeys: settings.allow_master_keys
    }
    const onLeave = (found: Found) => {
      for (const id of found.ids) if (this.#byId.get(id) === found) this.#byId.delete(id)
    }
    this.#known = new Recent(SESSIONS, onLeave)
    this.#unknown = new Recent(UNKNOWN, onLeave)
    this.#stop = changes.listen(all => {
      if (all === null) this.#forgetAll()
      else for (const { kind, id } of all) if (kind === 'key') this.#forget(id)
    })
  }

  /**
   * The session of a presented credential in an API's organisation: the custom id of this name there, else the token,
   * if its key belongs there; null: unknown. A promise only when the store must be waited for.
   * @throws Unavailable (or rejects with it) when the store is away, or too many look-ups wait for it
   */
  find(org: string, credential: string): Session | null | Promise<Session | null> {
    const found = this.#known.get(credential)
    if (found?.org === org && found.epoch === this.#policies.epoch && !found.isShared) return found.session
    return this.#seek(org, credential)
  }

  /** The session of the same key as it stands in the store now; null: it is gone. @throws Unavailable (or rejects with it) */
  again({ hash, orgId }: Session): Session | null | Promise<Session | null> {
    return whenReady(this.#read(hash), document => {
      if (document === null || document.org !== orgId) return null
      return whenReady(this.#resolve(orgId, '', [hash], document), ({ session }) => session)
    })
  }

  /** A key with its policies, as they stand now. */
  applied(org: string, key: Key): Applied | Promise<Applied> {
    return whenReady(this.#policies.of(key, org), named => applyPolicies(key, org, named))
  }

  /**
   * @param key with its policies applied
   * @param written `last_updated` of the stored key, where policies may have moved it
   * @param isIdentity `KeyRecord.isIdentity`
   */
  session(hash: string, org: string, key: Key, written = key.last_updated, isIdentity = false): Session {
    return new Session(hash, org, key, goneAt(key, written), this.#sessionTools, isIdentity)
  }

  close(): void {
    this.#stop()
  }

  #seek(org: string, credential: string): Session | null | Promise<Session | null> {
    if (credential.length > longestId || credential.includes('\0')) return null
    // One text may be the custom id of several organisations: the first to use it has the short name.
    const long = `${org}\0${credential}`
    const short = this.#known.get(credential)
    const known = short?.org === org ? short : this.#known.get(long)
    if (known !== undefined) {
      const { name, ids, document, epoch, session } = known
      return epoch === this.#policies.epoch
        ? session
        : this.#wait(long, ids, () => this.#resolve(org, name, ids, document))
    }
    const missed = this.#unknown.get(long)
    if (missed?.epoch === this.#policies.epoch && this.#clock.now() - missed.at < UNKNOWN_MS) return null
    if (idFault(credential, 1) !== null) return null
    const custom = customId(org, credential)
    const token = tokenId(credential)
    const name = short === undefined ? unshared(credential) : long
    return this.#wait(long, [custom, token], () =>
      whenReady(this.#read(custom), named => {
        if (named !== null) return this.#resolve(org, name, [custom], named)
        return whenReady(this.#read(token), document => {
          // Creating a custom id of this name takes its place.
          if (document?.org === org) return this.#resolve(org, name, [custom, token], document)
          return this.#resolve(org, long, [custom], null)
        })
      })
    )
  }

  #read(id: string): Document<KeyRecord> | null | Promise<Document<KeyRecord> | null> {
    return this.#store.get<KeyRecord>('key', id)
  }

  #resolve(
    org: string,
    name: string,
    ids: readonly string[],
    document: Document<KeyRecord> | null
  ): Found | Promise<Found> {
    const { epoch } = this.#policies
    const at = this.#clock.now()
    const isShared = name.includes('\0')
    if (document === null) return { name, isShared, org, ids, document, session: null, epoch, at }
    return whenReady(this.applied(org, document.body.key), applied => {
      const { key: written, isIdentity } = document.body
      // Policies come with the caller's token; switching the caller off is all that is said of this very one.
      const isOff = isIdentity === true && written.is_inactive === true
      const key = 'key' in applied ? (isOff ? { ...applied.key, is_inactive: true } : applied.key) : null
      const session = key === null ? null : this.session(document.id, org, key, written.last_updated, isIdentity)
      return { name, isShared, org, ids, document, session, epoch, at }
    })
  }

  /** Runs a look-up, or joins the one under way for the same credential. */
  #wait(
    long: string,
    ids: readonly string[],
    look: () => Found | Promise<Found>
  ): Session | null | Promise<Session | null> {
    const under = this.#waits.get(long)
    if (under?.answer) return under.answer
    if (this.#waits.size >= MOST_WAITING) throw new Unavailable('too many look-ups of keys wait for the store')
    const wait: Wait = { ids, answer: null, isVoid: false }
    const found = look()
    if (!(found instanceof Promise)) return this.#remember(found)
    const end = () => {
      if (this.#waits.get(long) === wait) this.#waits.delete(long)
    }
    this.#waits.set(long, wait)
    wait.answer = found.then(
      late => {
        end()
        return wait.isVoid ? late.session : this.#remember(late)
      },
      cause => {
        end()
        throw cause
      }
    )
    return wait.answer
  }

  #remember(found: Found): Session | null {
    if (found.document === null) this.#unknown.set(found.name, found)
    else this.#known.set(found.name, found)
    for (const id of found.ids) this.#byId.set(id, found)
    return found.session
  }

  #forgetAll(): void {
    this.#known.clear()
    this.#unknown.clear()
    for (const wait of this.#waits.values()) wait.isVoid = true
    this.#waits.clear()
  }

  #forget(id: string): void {
    if (id === anyId) return this.#forgetAll()
    const found = this.#byId.get(id)
    if (found !== undefined) (found.document === null ? this.#unknown : this.#known).delete(found.name)
    for (const [long, wait] of this.#waits) {
      if (!wait.ids.includes(id)) continue
      wait.isVoid = true
      this.#waits.delete(long)
    }
  }
}

/** Goes on at once with what is there, or once it is. */
function whenReady<T, R>(value: T | Promise<T>, next: (value: T) => R | Promise<R>): R | Promise<R> {
  return value instanceof Promise ? value.then(next) : next(value)
}

/** A copy of its own: a part of a request's head would keep the whole head in memory. */
function unshared(text: string): string {
  return Buffer.from(text).toString()
}
