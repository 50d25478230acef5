import Type from 'typebox'
import { Password } from '../../config/shape/user.ts'
import { passwords } from '../../gateway/passwords/passwords.ts'
import type { Caller } from '../caller.ts'
import { Answer, type Endpoint, endpoint, etag, Refused } from '../endpoint.ts'
import { envelope, ok } from '../envelope.ts'
import { hashPassword } from '../passwords.ts'
import { allows, levelOf } from '../permissions.ts'
import { changeUser, newAccessKey } from '../writeUsers.ts'
import { CHANGED, needsUsers, UserId } from './users.ts'

/** What is done to a user's access key and password (semantics §2.8). */

const strict = { additionalProperties: false } as const
const nothing = Type.Object({}, strict)
const noBody = { bodyForm: 'none', body: Type.Unknown(), malformed: '' } as const
const common = { door: 'management', anyUser: true, params: UserId, query: nothing } as const

export const resetKey = endpoint({
  ...noBody,
  ...common,
  method: 'PUT',
  path: '/api/users/{id}/actions/key/reset',
  summary:
    'Gives a user a new access key; the old one opens nothing from the next request on. Oneself without a permission',
  answer: envelope(Type.String({ description: 'The new access key' })),
  hides: ['Meta'],
  async handle(call, tools) {
    ownOrUsers(call.caller, call.params.id)
    const accessKey = newAccessKey(tools)
    const { rev } = await changeUser(call.params.id, call, CHANGED, tools, ({ body: { user } }) => ({
      user,
      accessKey
    }))
    return new Answer(200, ok('User session renewed', accessKey), etag(rev))
  }
})

export const revokeKey = endpoint({
  ...noBody,
  ...common,
  method: 'PUT',
  path: '/api/users/{id}/actions/revoke',
  summary: 'Takes the access key from a user; a reset gives another one. Oneself without a permission',
  answer: envelope(Type.Null()),
  async handle(call, tools) {
    ownOrUsers(call.caller, call.params.id)
    const { rev } = await changeUser(call.params.id, call, CHANGED, tools, ({ body: { user } }) => ({
      user,
      accessKey: ''
    }))
    return new Answer(200, ok('User revoked'), etag(rev))
  }
})

export const resetPassword = endpoint({
  ...common,
  method: 'POST',
  path: '/api/users/{id}/actions/reset',
  summary: 'Sets a password: the own one, or another one with the permission ResetPassword',
  bodyForm: 'json',
  body: Type.Object(
    {
      current_password: Type.Optional(
        Type.String({ maxLength: 1000, description: 'Of oneself, where there is a password already' })
      ),
      new_password: Password
    },
    strict
  ),
  malformed: 'Request body malformed.',
  answer: envelope(Type.Null()),
  async handle(call, tools) {
    const { caller, params, body } = call
    const own = caller.user!.id === params.id
    if (!own && !mayReset(caller))
      throw new Refused(403, 'access denied: You do not have permission to reset passwords of other users')
    const password_updated = new Date(tools.clock.now()).toISOString()
    let passwordHash: string | null = null
    const { rev } = await changeUser(params.id, call, CHANGED, tools, async document => {
      const { user, passwordHash: known } = document.body
      if (own && known !== '' && !(await passwords.verify(body.current_password ?? '', known)))
        throw new Refused(400, 'The current password is another one')
      passwordHash ??= await hashPassword(body.new_password)
      return { user: { ...user, password_updated }, passwordHash }
    })
    return new Answer(200, ok('User password updated'), etag(rev))
  }
})

function ownOrUsers(caller: Caller, id: string): void {
  if (caller.user!.id !== id) needsUsers(caller, id, 'write')
}

/** It is asked for by name, of administrators too: the admin interface gives and takes it. */
function mayReset({ user }: Caller): boolean {
  return allows(levelOf(user!.permissions, 'ResetPassword'), 'write')
}

export const userActions: readonly Endpoint[] = [resetKey, revokeKey, resetPassword]
