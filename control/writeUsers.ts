import type { User } from '../config/shape/user.ts'
import {
  Conflict,
  type Document,
  type Revision,
  type Sequence,
  type Store,
  type Write
} from '../gateway/store/store.ts'
import { type Caller, owns } from './caller.ts'
import { type Call, Refused } from './endpoint.ts'
import { entered, entranceOf } from './entrance.ts'
import { newId } from './ids.ts'
import { covers, isAdmin, type Permissions } from './permissions.ts'
import type { ControlTools } from './tools.ts'
import { tried } from './tries.ts'
import {
  accessKeyOf,
  type GroupRecord,
  type NextUser,
  newUser,
  orgOfUser,
  permissionsOf,
  storedPermissionsOf,
  type UserRecord,
  userChanges,
  userWrites
} from './users.ts'

/** Writing users, whoever asks: by the management interface or by the admin interface. */

export type UserDocument = Document<UserRecord>
type Asked = Pick<Call<unknown, unknown, unknown>, 'caller' | 'matched' | 'changed'>

/** What a surface calls these refusals (semantics §1.12, §2.8). */
export interface Texts {
  readonly unknown: string
  readonly taken: string
}

/** 32 hexadecimal digits. */
export function newAccessKey({ random }: Pick<ControlTools, 'random'>): string {
  return Buffer.from(random.bytes(16)).toString('hex')
}

/** A user that the caller may know of; null: none. */
export async function ownUser(id: string, caller: Caller, store: Pick<Store, 'get'>): Promise<UserDocument | null> {
  const document = await store.get<UserRecord>('user', id)
  return document !== null && owns(caller, document.org) ? document : null
}

/**
 * A user as the caller sees it: the access key stands there for its owner and for those who may do whatever it may, now or
 * once its group is switched on or off.
 */
export async function shownUser(document: UserDocument, caller: Caller, tools: ControlTools): Promise<User> {
  const { user } = document.body
  const { user: asks } = caller
  const sees =
    asks === null ||
    asks.id === document.id ||
    (caller.admin &&
      (await storedPermissionsOf(user, document.org, tools.store)).every(each => covers(asks.permissions, each)))
  return { access_key: sees ? accessKeyOf(document, tools.vault) : '', ...user }
}

/** @throws Refused 403 when somebody with any of these permissions may do what the caller may not */
export function mayHandle({ user }: Caller, ...all: readonly Permissions[]): void {
  if (user !== null && !all.every(permissions => covers(user.permissions, permissions)))
    throw new Refused(403, 'access denied: You do not have all permissions that this would give or take over')
}

export interface Written {
  readonly user: UserRecord['user']
  readonly accessKey: string
  readonly rev: Revision
}

/** @throws Refused */
export async function createUser(
  given: User,
  passwordHash: string,
  { caller }: Pick<Asked, 'caller'>,
  texts: Texts,
  tools: ControlTools
): Promise<Written> {
  const { store, vault, clock } = tools
  const user = newUser(given, given.id || newId(tools), new Date(clock.now()).toISOString())
  const accessKey = given.access_key || newAccessKey(tools)
  const sequence = await tried('organisation', async () => {
    const entry = await placed(user, store)
    mayHandle(caller, ...(await storedPermissionsOf(user, orgOfUser(user), store)))
    return told(texts, userWrites(user, accessKey, passwordHash, vault), entry, store).catch(idTaken)
  })
  await publish(sequence, user.id, false, tools)
  return { user, accessKey, rev: 1 }
}

/**
 * Changes a user from what it is now; `make` may run again, and answers null to delete it.
 * @throws Refused
 */
export async function changeUser(
  id: string,
  asked: Asked,
  texts: Texts,
  tools: ControlTools,
  make: (document: UserDocument) => NextUser | null | Promise<NextUser | null>
): Promise<Written> {
  const { caller, matched, changed } = asked
  const { store, vault } = tools
  return tried('user', async () => {
    const before = await ownUser(id, caller, store)
    if (before === null) throw new Refused(404, texts.unknown)
    matched(before.rev)
    const had = await permissionsOf(before.body.user, before.org, store)
    // Nobody takes over itself, whatever its group hides.
    if (caller.user?.id !== id) mayHandle(caller, ...(await storedPermissionsOf(before.body.user, before.org, store)))
    const next = await make(before)
    const { has, entry } = next === null ? GONE : await judged(next, before, caller, store)
    keepsItself(before, next, had, has, caller)
    if (next !== null) changed(before.body.user, next.user)
    const sequence = await told(texts, userChanges(before, next, vault), entry, store)
    await publish(sequence, id, next === null, tools)
    const accessKey = next?.accessKey ?? accessKeyOf(before, vault)
    return { user: (next ?? before.body).user, accessKey, rev: before.rev + 1 }
  })
}

interface Judged {
  /** What a user may do afterwards. */
  readonly has: Permissions
  /** What the commit adds. */
  readonly entry: readonly Write[]
}

const GONE: Judged = { has: {}, entry: [] }

/** @throws Refused when the caller may not give a user what it would have, or it would stand nowhere */
async function judged(
  { user }: NextUser,
  { org, body }: UserDocument,
  caller: Caller,
  store: Pick<Store, 'get'>
): Promise<Judged> {
  const moves = orgOfUser(user) !== org || user.group_id !== body.user.group_id
  const entry = moves ? await placed(user, store, org) : []
  const has = await permissionsOf(user, orgOfUser(user), store)
  mayHandle(caller, has)
  // What is given here counts when somebody switches the group on or off, if not now.
  const [, ...ofGroup] = await storedPermissionsOf(user, orgOfUser(user), store)
  if (moves) mayHandle(caller, ...ofGroup)
  if (JSON.stringify(user.user_permissions) !== JSON.stringify(body.user.user_permissions))
    mayHandle(caller, user.user_permissions)
  return { has, entry }
}

/** An organisation must not lose its administrators by mistake: none can delete, switch off or demote itself. */
function keepsItself(
  { id }: UserDocument,
  next: NextUser | null,
  had: Permissions,
  has: Permissions,
  { user }: Caller
): void {
  if (user?.id !== id || !isAdmin(had)) return
  if (next === null || !next.user.active || !isAdmin(has) || next.accessKey === '')
    throw new Refused(409, 'An administrator cannot delete, switch off or demote itself: another one can')
}

/**
 * Its organisation and its group are there. Answers what keeps the organisation from being deleted until it has the user;
 * where the user is already, the user does.
 * @param from the organisation in which it is; absent: it is new
 * @throws Refused 400
 */
async function placed(user: UserRecord['user'], store: Pick<Store, 'get'>, from?: string): Promise<Write[]> {
  const org = orgOfUser(user)
  const entry = org === 'default' || org === from ? [] : [entered(await entranceOf(org, store))]
  if (org !== 'default' && (await store.get('organisation', org)) === null)
    throw new Refused(400, 'There is no organisation of this id', { more: fault('/org_id') })
  if (user.group_id === '') return entry
  const group = await store.get<GroupRecord>('group', user.group_id)
  if (group?.org !== org) throw new Refused(400, 'There is no user group of this id', { more: fault('/group_id') })
  return entry
}

function fault(pointer: string) {
  return { faults: [{ pointer, message: 'leads nowhere' }] }
}

/** @throws Refused; Conflict on the user or its organisation */
async function told(
  { taken }: Texts,
  writes: readonly Write[],
  entry: readonly Write[],
  store: Pick<Store, 'commit'>
): Promise<Sequence> {
  try {
    return await store.commit([...writes, ...entry])
  } catch (cause) {
    if (!(cause instanceof Conflict) || entry.some(({ id }) => id === cause.id)) throw cause
    if (cause.kind === 'name') throw new Refused(409, taken)
    if (cause.kind === 'access') throw new Refused(409, 'The access key cannot be used: choose another one')
    throw cause
  }
}

function idTaken(cause: unknown): never {
  throw cause instanceof Conflict && cause.kind === 'user'
    ? new Refused(409, 'A user of this id exists already')
    : cause
}

function publish(sequence: number, id: string, deleted: boolean, { changes }: ControlTools): Promise<void> {
  return changes.publish([{ sequence, kind: 'user', id, deleted }])
}
