import Type from 'typebox'
import { User } from '../../config/shape/user.ts'
import { Answer, type Endpoint, endpoint, etag, Refused } from '../endpoint.ts'
import { envelope, ok } from '../envelope.ts'
import { listPage, paging } from '../page.ts'
import type { ControlTools } from '../tools.ts'
import { orgOfUser, type UserRecord } from '../users.ts'
import { changeUser, createUser, ownUser, shownUser, type Written } from '../writeUsers.ts'
import { sameId } from './users.ts'

/** Users of all organisations, by the admin secret (specification; semantics §1.12, §2.11). */

const strict = { additionalProperties: false } as const
const nothing = Type.Object({}, strict)
const Paging = Type.Object(paging, strict)
// The specification's name of the parameter.
const UserId = Type.Object({ userId: Type.String({ minLength: 1, maxLength: 256 }) }, strict)
const noBody = { bodyForm: 'none', body: Type.Unknown(), malformed: '' } as const
const withBody = { bodyForm: 'json', body: User, malformed: 'Request body malformed' } as const
const common = { door: 'admin', query: nothing } as const
const TEXTS = { unknown: 'User not found', taken: 'User email already exists for this Org' }

const listUsers = endpoint({
  ...common,
  ...noBody,
  method: 'GET',
  path: '/admin/users',
  summary: 'Users of all organisations',
  params: nothing,
  query: Paging,
  answer: Type.Object({ users: Type.Array(User), pages: Type.Integer() }, strict),
  handle: ({ query, caller }, tools) =>
    listPage<UserRecord>(tools, 'user', null, query, 'users', document => shownUser(document, caller, tools))
})

const readUser = endpoint({
  ...common,
  ...noBody,
  method: 'GET',
  path: '/admin/users/{userId}',
  summary: 'A user of any organisation',
  params: UserId,
  answer: User,
  async handle({ params, caller }, tools) {
    const document = await ownUser(params.userId, caller, tools.store)
    if (document === null) throw new Refused(404, 'Could not retrieve user detail')
    return new Answer(200, await shownUser(document, caller, tools), etag(document.rev))
  }
})

const addUser = endpoint({
  ...common,
  ...withBody,
  method: 'POST',
  path: '/admin/users',
  summary:
    'Creates a user: an administrator that is not active, where nothing else is given. Message is its access key',
  params: nothing,
  answer: envelope(User),
  hides: ['Message'],
  handle: async (call, tools) => told(await createUser(call.body, '', call, TEXTS, tools))
})

const updateUser = endpoint({
  ...common,
  ...withBody,
  method: 'PUT',
  path: '/admin/users/{userId}',
  summary: 'Changes the members that are given. Message is the access key',
  params: UserId,
  answer: envelope(User),
  hides: ['Message'],
  async handle(call, tools) {
    const { access_key: given, created_at, ...members } = call.body
    const written = await changeUser(call.params.userId, call, TEXTS, tools, ({ id, body: { user } }) => {
      sameId(members, id)
      const left = orgOfUser({ ...user, ...members }) === orgOfUser(user) ? user : { ...user, group_id: '' }
      return { user: { ...left, ...members, id }, ...(given ? { accessKey: given } : {}) }
    })
    return told(written)
  }
})

const deleteUser = endpoint({
  ...common,
  ...noBody,
  method: 'DELETE',
  path: '/admin/users/{userId}',
  summary: 'Deletes a user of any organisation',
  params: UserId,
  answer: envelope(Type.Null()),
  async handle(call, tools) {
    await changeUser(call.params.userId, call, TEXTS, tools, () => null)
    return ok('User deleted')
  }
})

// Denied, not only taken away: an administrator could give it back to itself.
const allowReset = resets('allow', 'admin', 'Lets a user reset passwords of others')
const disallowReset = resets('disallow', 'deny', 'Denies a user to reset passwords of others')

function resets(word: 'allow' | 'disallow', level: 'admin' | 'deny', summary: string): Endpoint {
  return endpoint({
    ...common,
    ...noBody,
    method: 'PUT',
    path: `/admin/users/{userId}/actions/${word}_reset_passwords`,
    summary,
    params: UserId,
    answer: envelope(Type.Null()),
    async handle(call, tools) {
      const { rev } = await changeUser(call.params.userId, call, TEXTS, tools, ({ body: { user } }) => ({
        user: { ...user, user_permissions: { ...user.user_permissions, ResetPassword: level } }
      }))
      return new Answer(200, ok('User updated'), etag(rev))
    }
  })
}

const reload = endpoint({
  ...common,
  ...noBody,
  method: 'GET',
  path: '/admin/system/reload',
  summary: 'Reads the folders of APIs and policies again',
  params: nothing,
  answer: Type.Object({ status: Type.Literal('ok') }, strict),
  async handle(_call, tools: ControlTools) {
    const faults = await tools.reload()
    if (faults.length > 0) throw new Refused(422, faults.join('; '), { more: { faults } })
    return { status: 'ok' }
  }
})

function told({ user, accessKey, rev }: Written): Answer {
  return new Answer(200, ok(accessKey, { access_key: accessKey, ...user }), etag(rev))
}

export const admin: readonly Endpoint[] = [
  listUsers,
  addUser,
  readUser,
  updateUser,
  deleteUser,
  allowReset,
  disallowReset,
  reload
]
