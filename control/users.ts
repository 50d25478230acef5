import { createHash } from 'node:crypto'
import type { Group, User } from '../config/shape/user.ts'
import type { Changes } from '../gateway/changes/changes.ts'
import type { Document, Store, Write } from '../gateway/store/store.ts'
import type { Vault } from '../gateway/vault.ts'
import { nameId } from './ids.ts'
import { isAdmin, type Permissions } from './permissions.ts'

/** Body of a stored `user` document; its id is the user's. */
export interface UserRecord {
  /** All members but `access_key`. */
  readonly user: Required<Omit<User, 'access_key'>>
  /** `accessId` of its access key: where a key leads to the user, but is not this one, it opens nothing. '' without a key. */
  readonly accessId: string
  /** The access key, sealed (`vault.ts`) for the place `user/<id>`; '' without a key. */
  readonly sealedKey: string
  /** bcrypt; '' while there is no password. */
  readonly passwordHash: string
}

/** Body of a stored `access` document; its id is `accessId` of the key. */
export interface AccessRecord {
  readonly user: string
}

/** Body of a stored `group` document; its id and organisation are the document's. */
export type GroupRecord = Readonly<Required<Omit<Group, '_id' | 'org_id'>>>

/** A user as doors know it. */
export interface Person {
  readonly id: string
  readonly email: string
  readonly org: string
  readonly active: boolean
  readonly admin: boolean
  /** Own ones, or those of its group. */
  readonly permissions: Permissions
}

/** People remembered at most. */
const REMEMBERED = 10_000

/** Where an access key is looked up. */
export function accessId(accessKey: string): string {
  return createHash('sha256').update(accessKey).digest('hex')
}

/** Finds out who calls. Remembers people until a user, a group or an access key changes. */
export class People {
  readonly #store: Pick<Store, 'get'>
  readonly #known = new Map<string, Person>()
  readonly #stop: () => void
  #epoch = 0

  constructor({ store, changes }: { store: Pick<Store, 'get'>; changes: Pick<Changes, 'listen'> }) {
    this.#store = store
    this.#stop = changes.listen(all => {
      if (Array.isArray(all) && !all.some(({ kind }) => kind === 'user' || kind === 'group' || kind === 'access'))
        return
      this.#known.clear()
      this.#epoch++
    })
  }

  /** Null: nobody has this access key. @throws Unavailable */
  async byAccessKey(accessKey: string): Promise<Person | null> {
    const id = accessId(accessKey)
    const known = this.#known.get(id)
    if (known !== undefined) return known
    const epoch = this.#epoch
    const access = await this.#store.get<AccessRecord>('access', id)
    const document = access === null ? null : await this.#store.get<UserRecord>('user', access.body.user)
    if (document === null || document.body.accessId !== id) return null
    const person = await this.#person(document)
    if (epoch === this.#epoch) {
      if (this.#known.size >= REMEMBERED) this.#known.clear()
      this.#known.set(id, person)
    }
    return person
  }

  close(): void {
    this.#stop()
  }

  async #person({ id, org, body: { user } }: Document<UserRecord>): Promise<Person> {
    const permissions = await permissionsOf(user, org, this.#store)
    return { id, email: user.email_address, org, active: user.active, admin: isAdmin(permissions), permissions }
  }
}

/**
 * What a user may do: who is in a group has the group's permissions (specification, Authentication: an administrator keeps
 * its own). A group that is switched off, gone or of another organisation counts as none.
 * @throws Unavailable
 */
export async function permissionsOf(
  user: UserRecord['user'],
  org: string,
  store: Pick<Store, 'get'>
): Promise<Permissions> {
  const { user_permissions: own } = user
  if (isAdmin(own)) return own
  const group = await groupOf(user, org, store)
  return group?.active ? group.user_permissions : own
}

/**
 * Everything that a user may do or may come to do: its own permissions, then its group's, whichever of them count now. A
 * group that is switched on or off brings the others to light.
 * @throws Unavailable
 */
export async function storedPermissionsOf(
  user: UserRecord['user'],
  org: string,
  store: Pick<Store, 'get'>
): Promise<readonly Permissions[]> {
  const group = await groupOf(user, org, store)
  return group === null ? [user.user_permissions] : [user.user_permissions, group.user_permissions]
}

/** Null: none, or of another organisation. */
async function groupOf(
  { group_id }: UserRecord['user'],
  org: string,
  store: Pick<Store, 'get'>
): Promise<GroupRecord | null> {
  const group = group_id === '' ? null : await store.get<GroupRecord>('group', group_id)
  return group?.org === org ? group.body : null
}

/** Of a time that never was (specification, POST /admin/users). */
export const zeroTime = '0001-01-01T00:00:00Z'

/** What a new user has where nothing was given. */
export function newUser(given: User, id: string, createdAt: string): UserRecord['user'] {
  const { access_key: _key, ...rest } = given
  return {
    active: false,
    api_model: {},
    email_address: '',
    first_name: '',
    last_name: '',
    group_id: '',
    last_login_date: zeroTime,
    org_id: '',
    password_max_days: 0,
    password_updated: zeroTime,
    user_permissions: { IsAdmin: 'admin', ResetPassword: 'admin' },
    ...rest,
    created_at: createdAt,
    id
  }
}

/** The organisation whose user it is. */
export function orgOfUser({ org_id }: Pick<User, 'org_id'>): string {
  return org_id || 'default'
}

/**
 * What keeps a new user: itself, its access key's place, and its e-mail address, which is unique in an organisation.
 * Committed together; a `Conflict` on `name` tells that the address is taken, on `access` that the key is, on `user` the id.
 */
export function userWrites(user: UserRecord['user'], accessKey: string, passwordHash: string, vault: Vault): Write[] {
  const org = orgOfUser(user)
  const key = keptKey(user.id, accessKey, vault)
  const body: UserRecord = { user, ...key, passwordHash }
  return [
    { kind: 'user', id: user.id, org, body, expect: 0 },
    ...place('access', key.accessId, user.id, org, 0),
    ...place('name', emailId(org, user.email_address), user.id, org, 0)
  ]
}

/** What a user becomes. */
export interface NextUser {
  readonly user: UserRecord['user']
  /** '': none any more. Absent: as it is. */
  readonly accessKey?: string
  /** Absent: as it is. */
  readonly passwordHash?: string
}

/** What changes a user, or deletes it (`next` null); conflicts as of `userWrites`, on `user` another revision. */
export function userChanges(before: Document<UserRecord>, next: NextUser | null, vault: Vault): Write[] {
  const { id, rev, body } = before
  const oldName = emailId(before.org, body.user.email_address)
  if (next === null)
    return [{ kind: 'user', id, body: null, expect: rev }, ...gone('access', body.accessId), ...gone('name', oldName)]
  const { user, accessKey, passwordHash = body.passwordHash } = next
  const org = orgOfUser(user)
  const key = accessKey === undefined ? body : keptKey(id, accessKey, vault)
  const after: UserRecord = { user, accessId: key.accessId, sealedKey: key.sealedKey, passwordHash }
  const name = emailId(org, user.email_address)
  const writes: Write[] = [{ kind: 'user', id, org, body: after, expect: rev }]
  if (key.accessId !== body.accessId)
    writes.push(...gone('access', body.accessId), ...place('access', key.accessId, id, org, 0))
  else if (org !== before.org) writes.push(...place('access', key.accessId, id, org))
  if (name !== oldName) writes.push(...gone('name', oldName), ...place('name', name, id, org, 0))
  return writes
}

function keptKey(id: string, accessKey: string, vault: Vault): Pick<UserRecord, 'accessId' | 'sealedKey'> {
  if (accessKey === '') return { accessId: '', sealedKey: '' }
  return { accessId: accessId(accessKey), sealedKey: vault.seal(accessKey, `user/${id}`) }
}

/** A document that leads to a user; none without an id. */
function place(kind: 'access' | 'name', id: string, user: string, org: string, expect?: 0): Write[] {
  if (id === '') return []
  const body: AccessRecord = { user }
  return [{ kind, id, org, body, ...(expect === undefined ? {} : { expect }) }]
}

function gone(kind: 'access' | 'name', id: string): Write[] {
  return id === '' ? [] : [{ kind, id, body: null }]
}

/** Its access key; '' when there is none, or it was sealed under another secret. */
export function accessKeyOf({ id, body: { sealedKey } }: Document<UserRecord>, vault: Vault): string {
  return vault.open(sealedKey, `user/${id}`) ?? ''
}

/** Where an address leads to its user, in any case; '' for none. */
export function emailId(org: string, email: string): string {
  return email === '' ? '' : nameId('user', org, email.toLowerCase())
}
