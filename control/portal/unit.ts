import type { PortalUser } from '../../config/shape/portal.ts'
import { Conflict, type Revision, type Store, type Write } from '../../gateway/store/store.ts'
import { Refused } from '../endpoint.ts'
import { nameId } from '../ids.ts'
import type { ControlTools } from '../tools.ts'

/** A portal belongs to an organisation of the management interface; its ids are numbers that count from 1 in each. */

/** Body of a stored `portal_organisation` document. */
export interface OrganisationRecord {
  readonly ID: number
  readonly Name: string
  readonly CreatedAt: string
  readonly UpdatedAt: string
  /** Ids of its members, and so the members of its default team. */
  readonly Users: readonly number[]
  /** The default team comes first and says nothing of its members. */
  readonly Teams: readonly TeamRecord[]
}

export interface TeamRecord {
  readonly Default: boolean
  readonly ID: number
  readonly Name: string
  readonly Users: readonly number[]
}

/** Body of the `name` document that holds the last ids given out. */
interface LastIds {
  readonly organisation: number
  readonly team: number
  readonly user: number
}

export const DEFAULT_ORGANISATION = 1
/** Members of an organisation, its teams. */
export const MOST_MEMBERS = 10_000
export const MOST_TEAMS = 1000
/** When it came to be, nobody wrote down. */
const LONG_AGO = '0001-01-01 00:00'
/** Tries of a change that others get ahead of; each time somebody's change succeeds. */
const MOST_TRIES = 200

export const defaultTeamName = (organisation: string) => `${organisation} All users`

type PortalKind = 'portal_organisation' | 'portal_user' | 'name'

interface Held {
  /** As it was read; 0: it was not there. */
  readonly rev: Revision
  readonly body: unknown
  readonly changed: boolean
}

/**
 * One call's view of a portal: what it reads and writes, kept in one commit that fails when anybody else wrote the same
 * meanwhile. Until something is written the default organisation is there without being stored; then it is written first.
 */
export class Unit {
  readonly org: string
  readonly #tools: Pick<ControlTools, 'store' | 'changes' | 'clock'>
  readonly #held = new Map<string, { readonly kind: PortalKind; readonly id: string } & Held>()
  #unwritten: readonly OrganisationRecord[] = []

  private constructor(org: string, tools: Pick<ControlTools, 'store' | 'changes' | 'clock'>) {
    this.org = org
    this.#tools = tools
  }

  static async begin(org: string, tools: Pick<ControlTools, 'store' | 'changes' | 'clock'>): Promise<Unit> {
    const unit = new Unit(org, tools)
    if ((await unit.#get<LastIds>('name', unit.#idsId)) === null) unit.#found()
    return unit
  }

  /** `YYYY-MM-DD HH:MM`, UTC. */
  get now(): string {
    return new Date(this.#tools.clock.now()).toISOString().slice(0, 16).replace('T', ' ')
  }

  /** The default organisation, where it was not stored at the beginning. */
  get unwritten(): readonly OrganisationRecord[] {
    return this.#unwritten
  }

  organisation(id: number): Promise<OrganisationRecord | null> {
    return this.#get('portal_organisation', this.#idOf(id))
  }

  user(id: number): Promise<PortalUser | null> {
    return this.#get('portal_user', this.#idOf(id))
  }

  /** Whose e-mail address it is; null: nobody's. */
  async email(address: string): Promise<number | null> {
    return (await this.#get<{ readonly user: number }>('name', this.#emailId(address)))?.user ?? null
  }

  putOrganisation(record: OrganisationRecord): void {
    this.#put('portal_organisation', this.#idOf(record.ID), record)
  }

  removeOrganisation(id: number): void {
    this.#put('portal_organisation', this.#idOf(id), null)
  }

  putUser(record: PortalUser): void {
    this.#put('portal_user', this.#idOf(record.ID), record)
  }

  removeUser(id: number): void {
    this.#put('portal_user', this.#idOf(id), null)
  }

  /** @param user null: nobody's any more; ask `email` before */
  putEmail(address: string, user: number | null): void {
    this.#put('name', this.#emailId(address), user === null ? null : { user })
  }

  /** An id that nobody has or ever had. */
  async newId(of: keyof LastIds): Promise<number> {
    const last = (await this.#get<LastIds>('name', this.#idsId)) as LastIds
    this.#put('name', this.#idsId, { ...last, [of]: last[of] + 1 })
    return last[of] + 1
  }

  /** The revision of an organisation or user: as it was read, or as it will be written. 0: it is not stored. */
  revision(kind: 'portal_organisation' | 'portal_user', id: number): Revision {
    const held = this.#held.get(`${kind}/${this.#idOf(id)}`)
    return held === undefined ? 0 : held.rev + (held.changed ? 1 : 0)
  }

  /** @throws Conflict */
  async commit(): Promise<void> {
    const held = [...this.#held.values()]
    if (!held.some(({ changed }) => changed)) return
    const writes: Write[] = []
    for (const { kind, id, rev, body, changed } of held)
      if (body === null && changed) writes.push({ kind, id, body, expect: rev })
      else if (body !== null && (changed || rev === 0)) writes.push({ kind, id, org: this.org, body, expect: rev })
    const sequence = await this.#tools.store.commit(writes)
    await this.#tools.changes.publish(
      writes.map(({ kind, id, body }) => ({ sequence, kind, id, deleted: body === null }))
    )
  }

  #found(): void {
    const [ID, Name, at] = [DEFAULT_ORGANISATION, 'Default Organisation', LONG_AGO]
    const team: TeamRecord = { Default: true, ID: 1, Name: defaultTeamName(Name), Users: [] }
    const ids: LastIds = { organisation: ID, team: 1, user: 0 }
    const first: OrganisationRecord = { ID, Name, CreatedAt: at, UpdatedAt: at, Users: [], Teams: [team] }
    this.#unwritten = [first]
    this.#hold('name', this.#idsId, ids)
    this.#hold('portal_organisation', this.#idOf(ID), first)
  }

  #hold(kind: PortalKind, id: string, body: unknown): void {
    this.#held.set(`${kind}/${id}`, { kind, id, rev: 0, body, changed: false })
  }

  async #get<T>(kind: PortalKind, id: string): Promise<T | null> {
    const held = this.#held.get(`${kind}/${id}`)
    if (held !== undefined) return held.body as T | null
    const document = await this.#tools.store.get<T>(kind, id)
    const body = document?.body ?? null
    this.#held.set(`${kind}/${id}`, { kind, id, rev: document?.rev ?? 0, body, changed: false })
    return body
  }

  #put(kind: PortalKind, id: string, body: unknown): void {
    const rev = this.#held.get(`${kind}/${id}`)?.rev ?? 0
    this.#held.set(`${kind}/${id}`, { kind, id, rev, body, changed: true })
  }

  #idOf(id: number): string {
    return storageId(this.org, id)
  }

  get #idsId(): string {
    return idsId(this.org)
  }

  #emailId(address: string): string {
    return nameId('portal_user', this.org, address.toLowerCase())
  }
}

// The number stands at the end, so that no name of an organisation can be mistaken for another's.
function storageId(org: string, id: number): string {
  return `${org}/${id}`
}

function idsId(org: string): string {
  return nameId('portal ids', org, '')
}

/**
 * What takes a portal away in which there is nothing but its default organisation, which nobody can delete by itself; none
 * where it was never written. Null: there is more.
 */
export async function emptied(org: string, store: Pick<Store, 'get' | 'list'>): Promise<Write[] | null> {
  const { total } = await store.list('portal_user', { org, page: 1, size: 1, idsOnly: true })
  const { documents } = await store.list('portal_organisation', { org, page: 1, size: 2, idsOnly: true })
  const first = storageId(org, DEFAULT_ORGANISATION)
  if (total > 0 || documents.some(({ id }) => id !== first)) return null
  const ids = await store.get('name', idsId(org))
  return [...documents, ...(ids === null ? [] : [ids])].map(({ kind, id, rev }) => ({
    kind,
    id,
    body: null,
    expect: rev
  }))
}

/** Makes a change and commits it, from the beginning again while others get ahead. @throws Refused */
export async function changing<T>(org: string, tools: ControlTools, change: (unit: Unit) => Promise<T>): Promise<T> {
  for (let tries = 0; tries < MOST_TRIES; tries++) {
    const unit = await Unit.begin(org, tools)
    const result = await change(unit)
    try {
      await unit.commit()
      return result
    } catch (cause) {
      if (!(cause instanceof Conflict)) throw cause
    }
  }
  throw new Refused(409, 'The portal is being changed by others')
}
