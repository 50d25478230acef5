import { setImmediate as nextTurn } from 'node:timers/promises'
import type { Policy } from '../config/shape/policy.ts'
import type { Change, Document, Sequence, Store } from '../gateway/store/store.ts'

/** What lists of policies are narrowed to and sorted by, of one policy. */
export interface PolicyEntry {
  readonly id: string
  readonly org: string
  readonly name: string
  readonly state: 'deny' | 'draft' | 'active'
  readonly date_created: string
  /** Name, id and tags, in lower case. */
  readonly text: string
  /** Ids of the APIs that it has rights to. */
  readonly apis: readonly string[]
}

/** Deny: its keys open nothing. Draft: no new keys (semantics §1.2). A policy that says nothing is active. */
function stateOf({ active, is_inactive }: Policy): PolicyEntry['state'] {
  return is_inactive === true ? 'deny' : active === false ? 'draft' : 'active'
}

export function entryOf(policy: Policy, id = policy.id ?? ''): PolicyEntry {
  const { name = '', org_id: org = 'default', date_created = '', tags, access_rights } = policy
  const text = [name, id, ...(tags ?? [])].join('\0').toLowerCase()
  return { id, org, name, state: stateOf(policy), date_created, text, apis: Object.keys(access_rights ?? {}) }
}

/** Changes taken over before others have their turn. */
const SLICE = 100

/**
 * The stored policies of each organisation in the order of their creation, in memory: some 500 bytes each, from the
 * first search on. It asks the store for what has changed before it answers, so it is never behind a commit, whichever
 * process made it.
 */
export class PolicyIndex {
  readonly #store: Pick<Store, 'get' | 'each' | 'since' | 'sequence'>
  readonly #entries = new Map<string, PolicyEntry>()
  readonly #orgs = new Map<string, Map<string, PolicyEntry>>()
  /** One text for each id of an API. */
  readonly #names = new Map<string, string>()
  #upTo: Sequence | null = null
  #turn: Promise<void> = Promise.resolve()

  constructor(store: Pick<Store, 'get' | 'each' | 'since' | 'sequence'>) {
    this.#store = store
  }

  /**
   * @param org null: of all organisations
   * @throws Unavailable
   */
  async of(org: string | null): Promise<readonly PolicyEntry[]> {
    const turn = this.#turn.then(() => this.#follow())
    this.#turn = turn.catch(() => {})
    await turn
    const entries = org === null ? this.#entries : this.#orgs.get(org)
    return entries === undefined ? [] : [...entries.values()]
  }

  async #follow(): Promise<void> {
    const newest = await this.#store.sequence()
    if (newest === this.#upTo) return
    const changes = this.#upTo === null ? null : await this.#store.since(this.#upTo, ['policy'])
    if (changes === null) await this.#readAll()
    else
      for (const [i, change] of changes.entries()) {
        if (i % SLICE === SLICE - 1) await nextTurn()
        await this.#take(change)
      }
    this.#upTo = newest
  }

  async #readAll(): Promise<void> {
    this.#upTo = null
    this.#entries.clear()
    this.#orgs.clear()
    this.#names.clear()
    for await (const documents of this.#store.each<Policy>('policy', {}))
      for (const document of documents) this.#put(document)
  }

  async #take({ id, deleted }: Change): Promise<void> {
    const document = deleted ? null : await this.#store.get<Policy>('policy', id)
    // Of a policy that was deleted and created again the place is a new one.
    if (document === null || document.rev === 1) this.#drop(id)
    if (document !== null) this.#put(document)
  }

  #put({ id, org, body }: Document<Policy>): void {
    const plain = entryOf(body, id)
    const entry = { ...plain, org, apis: plain.apis.map(name => this.#nameOf(name)) }
    const before = this.#entries.get(id)
    if (before !== undefined && before.org !== org) this.#orgs.get(before.org)?.delete(id)
    this.#entries.set(id, entry)
    const own = this.#orgs.get(org) ?? new Map<string, PolicyEntry>()
    own.set(id, entry)
    this.#orgs.set(org, own)
  }

  #nameOf(name: string): string {
    const known = this.#names.get(name)
    if (known === undefined) this.#names.set(name, name)
    return known ?? name
  }

  #drop(id: string): void {
    const entry = this.#entries.get(id)
    if (entry === undefined) return
    this.#entries.delete(id)
    const own = this.#orgs.get(entry.org)
    own?.delete(id)
    if (own?.size === 0) this.#orgs.delete(entry.org)
  }
}
