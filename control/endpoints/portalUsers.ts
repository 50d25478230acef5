import Type from 'typebox'
import { NewPortalUser, PortalUser, PortalUserChange } from '../../config/shape/portal.ts'
import { orgOf } from '../caller.ts'
import { Answer, type Endpoint, endpoint, etag } from '../endpoint.ts'
import { PortalPaging, portalPage } from '../portal/page.ts'
import { changeUser, createUser, numberOf, removeUser, userOf } from '../portal/portal.ts'
import { changing, Unit } from '../portal/unit.ts'

/** Members of the portal's organisations (specification, Portal organisation: Users; semantics §9). */

const strict = { additionalProperties: false } as const
const NoParams = Type.Object({}, strict)
const NoQuery = Type.Object({}, strict)
const UserId = Type.Object({ user_id: Type.String({ description: 'A whole number' }) }, strict)
const malformed = 'Request body malformed'
const none = { bodyForm: 'none', body: Type.Unknown(), malformed } as const
const json = { bodyForm: 'json', malformed } as const
const USERS = '/portal-api/users'
const USER = `${USERS}/{user_id}`

const list = endpoint({
  method: 'GET',
  path: USERS,
  door: 'portal',
  summary: 'Users of the portal, oldest first',
  params: NoParams,
  query: PortalPaging,
  ...none,
  answer: Type.Array(PortalUser),
  handle: ({ query, caller }, tools) =>
    portalPage<PortalUser>('portal_user', orgOf(caller, undefined), query, tools, user => user)
})

const create = endpoint({
  method: 'POST',
  path: USERS,
  door: 'portal',
  summary: 'Creates a user in an organisation',
  params: NoParams,
  query: NoQuery,
  ...json,
  body: NewPortalUser,
  answer: PortalUser,
  handle: ({ body, caller }, tools) =>
    changing(orgOf(caller, undefined), tools, async unit => told(unit, await createUser(unit, body)))
})

const read = endpoint({
  method: 'GET',
  path: USER,
  door: 'portal',
  summary: 'One user',
  params: UserId,
  query: NoQuery,
  ...none,
  answer: PortalUser,
  async handle({ params, caller }, tools) {
    const id = numberOf(params.user_id, 'user')
    const unit = await Unit.begin(orgOf(caller, undefined), tools)
    return told(unit, await userOf(unit, id))
  }
})

const update = endpoint({
  method: 'PUT',
  path: USER,
  door: 'portal',
  summary: 'Changes a user, its organisation included',
  params: UserId,
  query: NoQuery,
  ...json,
  body: PortalUserChange,
  answer: PortalUser,
  handle({ params, body, caller, matched, changed }, tools) {
    const id = numberOf(params.user_id, 'user')
    return changing(orgOf(caller, undefined), tools, async unit => {
      const before = await userOf(unit, id)
      matched(unit.revision('portal_user', id))
      const after = await changeUser(unit, before, body)
      changed(before, after)
      return told(unit, after)
    })
  }
})

const remove = endpoint({
  method: 'DELETE',
  path: USER,
  door: 'portal',
  summary: 'Deletes a user',
  params: UserId,
  query: NoQuery,
  ...none,
  answer: Type.Object({ status: Type.Literal('ok') }, strict),
  handle({ params, caller, matched }, tools) {
    const id = numberOf(params.user_id, 'user')
    return changing(orgOf(caller, undefined), tools, async unit => {
      const user = await userOf(unit, id)
      matched(unit.revision('portal_user', id))
      await removeUser(unit, user)
      return { status: 'ok' }
    })
  }
})

function told(unit: Unit, user: PortalUser): Answer {
  return new Answer(200, user, etag(unit.revision('portal_user', user.ID)))
}

export const portalUsers: readonly Endpoint[] = [list, create, read, update, remove]
