import Type from 'typebox'
import { NewUser, User } from '../../config/shape/user.ts'
import type { Caller } from '../caller.ts'
import { Answer, type Endpoint, endpoint, etag, Refused } from '../endpoint.ts'
import { envelope, ok } from '../envelope.ts'
import { listPage, mapped, type PageAsked, pageAsked, pagesOf, paging, streamedList } from '../page.ts'
import { hashPassword } from '../passwords.ts'
import { denial } from '../permissions.ts'
import type { ControlTools } from '../tools.ts'
import type { UserRecord } from '../users.ts'
import { changeUser, createUser, ownUser, shownUser, type UserDocument } from '../writeUsers.ts'

/** Management users of the caller's organisation (semantics §1.11, §2.8). */

const strict = { additionalProperties: false } as const
const nothing = Type.Object({}, strict)
const Paging = Type.Object(paging, strict)
export const UserId = Type.Object({ id: Type.String({ minLength: 1, maxLength: 256 }) }, strict)
const UserList = Type.Object({ users: Type.Array(User), pages: Type.Integer() }, strict)
const noBody = { bodyForm: 'none', body: Type.Unknown(), malformed: '' } as const
const CREATED = { unknown: '', taken: 'User email already exists for this org.' }
export const CHANGED = { unknown: 'user does not exist.', taken: CREATED.taken }

export const listUsers = endpoint({
  ...noBody,
  method: 'GET',
  path: '/api/users',
  door: 'management',
  summary: 'Users of the organisation',
  params: nothing,
  query: Paging,
  answer: UserList,
  handle: ({ query, caller }, tools) =>
    listPage<UserRecord>(tools, 'user', orgOf(caller), query, 'users', document => shownUser(document, caller, tools))
})

export const searchUsers = endpoint({
  method: 'POST',
  path: '/api/users/search',
  door: 'management',
  intent: 'read',
  summary: 'Users whose e-mail address contains a text, in any case',
  params: nothing,
  query: Paging,
  bodyForm: 'json',
  body: Type.Object({ filters: Type.Object({ query: Type.String({ maxLength: 320 }) }, strict) }, strict),
  malformed: 'Could not extract search filter from request body.',
  answer: UserList,
  handle: ({ query, body, caller }, tools) => found(body.filters.query, pageAsked(query, tools.settings), caller, tools)
})

export const searchUsersByQuery = endpoint({
  ...noBody,
  method: 'GET',
  path: '/api/users/search',
  door: 'management',
  summary: 'The same search by query, deprecated',
  params: nothing,
  query: Type.Object({ ...paging, q: Type.String({ maxLength: 320 }) }, strict),
  answer: UserList,
  handle: ({ query, caller }, tools) => found(query.q, pageAsked(query, tools.settings), caller, tools)
})

export const readMe = endpoint({
  ...noBody,
  method: 'GET',
  path: '/api/users/me',
  door: 'management',
  anyUser: true,
  summary: 'The user who asks',
  params: nothing,
  query: nothing,
  answer: User,
  handle: ({ caller }, tools) => read(caller.user!.id, caller, tools)
})

export const readUser = endpoint({
  ...noBody,
  method: 'GET',
  path: '/api/users/{id}',
  door: 'management',
  anyUser: true,
  summary: 'A user; oneself without a permission',
  params: UserId,
  query: nothing,
  answer: User,
  handle({ params, caller }, tools) {
    if (params.id !== caller.user!.id) needsUsers(caller, params.id, 'read')
    return read(params.id, caller, tools)
  }
})

export const addUser = endpoint({
  method: 'POST',
  path: '/api/users',
  door: 'management',
  summary: 'Creates a user, with permissions that the caller has too; created_at and times of logins are set here',
  params: nothing,
  query: nothing,
  bodyForm: 'json',
  body: NewUser,
  malformed: 'Request body malformed.',
  invalid: 'User object validation failed.',
  answer: envelope(Type.String({ description: 'Id of the user' })),
  async handle(call, tools) {
    const { password, last_login_date, password_updated, ...given } = call.body
    const org_id = orgOf(call.caller)
    ofOrg(given, org_id)
    mayDoSomething(given)
    const now = { password_updated: new Date(tools.clock.now()).toISOString() }
    const hash = password === undefined ? '' : await hashPassword(password)
    const user = { ...given, ...(password === undefined ? {} : now), org_id }
    const { user: made, rev } = await createUser(user, hash, call, CREATED, tools)
    return new Answer(200, ok('User and session have been created', made.id), etag(rev))
  }
})

export const updateUser = endpoint({
  method: 'PUT',
  path: '/api/users/{id}',
  door: 'management',
  summary: 'Changes the members that are given; the access key, the password and times of logins stay',
  params: UserId,
  query: nothing,
  bodyForm: 'json',
  body: User,
  malformed: 'Request body malformed.',
  invalid: 'User object validation failed.',
  answer: envelope(Type.Null()),
  async handle(call, tools) {
    const { access_key, created_at, last_login_date, password_updated, org_id, ...given } = call.body
    const { rev } = await changeUser(call.params.id, call, CHANGED, tools, async document => {
      ofOrg({ org_id }, document.org)
      sameId(given, document.id)
      if (access_key && access_key !== (await shownUser(document, call.caller, tools)).access_key)
        throw new Refused(400, 'An access key is changed by actions/key/reset alone')
      const user = { ...document.body.user, ...given, id: document.id }
      mayDoSomething(user)
      return { user }
    })
    return new Answer(200, ok('User updated'), etag(rev))
  }
})

export const deleteUser = endpoint({
  ...noBody,
  method: 'DELETE',
  path: '/api/users/{id}',
  door: 'management',
  summary: 'Deletes a user; its access key opens nothing from the next request on',
  params: UserId,
  query: nothing,
  answer: envelope(Type.Null()),
  async handle(call, tools) {
    await changeUser(call.params.id, call, CHANGED, tools, () => null)
    return ok('User deleted')
  }
})

function orgOf({ org }: Caller): string {
  return org ?? 'default'
}

/** @throws Refused 403 */
export function needsUsers({ user }: Caller, id: string, intent: 'read' | 'write'): void {
  const no = user === null ? null : denial(user.permissions, `/api/users/${id}`, intent, '/api/users/{id}')
  if (no !== null) throw new Refused(403, no)
}

/** @throws Refused 403 */
export function ofOrg({ org_id }: { readonly org_id?: string | undefined }, org: string): void {
  if (org_id && org_id !== org) throw new Refused(403, 'access denied: The user belongs to another organisation')
}

/** @throws Refused 400 */
export function sameId({ id }: Pick<User, 'id'>, stored: string): void {
  if (id && id !== stored) throw new Refused(400, 'The id of a user does not change')
}

/** @throws Refused 400 */
function mayDoSomething({ user_permissions = {}, group_id }: User): void {
  if (Object.keys(user_permissions).length === 0 && !group_id)
    throw new Refused(400, 'To create a user specify at least one permission, or make them an admin.')
}

async function read(id: string, caller: Caller, tools: ControlTools): Promise<Answer> {
  const document = await ownUser(id, caller, tools.store)
  if (document === null) throw new Refused(404, 'Could not retrieve user detail.')
  return new Answer(200, await shownUser(document, caller, tools), etag(document.rev))
}

async function* matching(text: string, caller: Caller, { store }: ControlTools): AsyncGenerator<UserDocument> {
  const sought = text.toLowerCase()
  for await (const documents of store.each<UserRecord>('user', { org: orgOf(caller) }))
    for (const document of documents)
      if (document.body.user.email_address.toLowerCase().includes(sought)) yield document
}

async function found(text: string, asked: PageAsked, caller: Caller, tools: ControlTools): Promise<unknown> {
  const { page, size } = asked
  const all = matching(text, caller, tools)
  const show = (document: UserDocument) => shownUser(document, caller, tools)
  if (page < 0) return streamedList('users', 'pages', mapped(all, show))
  const documents: UserDocument[] = []
  let total = 0
  for await (const document of all) if (Math.floor(total++ / size) === page - 1) documents.push(document)
  return { users: await Promise.all(documents.map(show)), pages: pagesOf(total, asked) }
}

export const users: readonly Endpoint[] = [
  listUsers,
  searchUsers,
  searchUsersByQuery,
  readMe,
  readUser,
  addUser,
  updateUser,
  deleteUser
]
