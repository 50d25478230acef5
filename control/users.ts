import { createHash } from 'node:crypto'
import type { User } from '../config/shape/user.ts'
import type { Changes } from '../gateway/changes/changes.ts'
import type { Document, Store, Write } from '../gateway/store/store.ts'
import { nameId } from './ids.ts'
import { isAdmin, type Permissions } from './permissions.ts'
import type { Vault } from './vault.ts'

/** Body of a stored `user` document; its id is the user's. */
export interface UserRecord {
  /** All members but `access_key`. */
  readonly user: Required<Omit<User, 'access_key'>>
  /** The access key, sealed (`vault.ts`) for the place `user/<id>`. */
  readonly sealedKey: string
  /** bcrypt; '' while there is no password. */
  readonly passwordHash: string
}

/** Body of a stored `access` document; its id is `accessId` of the key. */
export interface AccessRecord {
  readonly user: string
}

/** Body of a stored `group` document. */
export interface GroupRecord {
  readonly name: string
  readonly description: string
  readonly active: boolean
  readonly user_permissions: Permissions
  readonly password_max_days: number
  readonly last_updated: string
}

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
    if (document === null) return null
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

  /** Who is in a group has the group's permissions, an administrator all of them anyway. */
  async #person({ id, org, body: { user } }: Document<UserRecord>): Promise<Person> {
    const own = user.user_permissions
    const group =
      user.group_id === '' || isAdmin(own) ? null : await this.#store.get<GroupRecord>('group', user.group_id)
    const permissions = group?.org === org && group.body.active ? group.body.user_permissions : own
    return { id, email: user.email_address, org, active: user.active, admin: isAdmin(permissions), permissions }
  }
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

/**
 * What keeps a new user: itself, its access key's place, and its e-mail address, which is unique in an organisation.
 * Committed together; a `Conflict` on `name` tells that the address is taken, on `access` that the key is, on `user` the id.
 */
export function userWrites(user: UserRecord['user'], accessKey: string, passwordHash: string, vault: Vault): Write[] {
  const org = user.org_id || 'default'
  const sealedKey = vault.seal(accessKey, `user/${user.id}`)
  const body: UserRecord = { user, sealedKey, passwordHash }
  const writes: Write[] = [
    { kind: 'user', id: user.id, org, body, expect: 0 },
    { kind: 'access', id: accessId(accessKey), org, body: { user: user.id } satisfies AccessRecord, expect: 0 }
  ]
  if (user.email_address !== '')
    writes.push({ kind: 'name', id: emailId(org, user.email_address), org, body: { user: user.id }, expect: 0 })
  return writes
}

/** Addresses are the same in any case. */
export function emailId(org: string, email: string): string {
  return nameId('user', org, email.toLowerCase())
}
