import { isDeepStrictEqual } from 'node:util'
import Type from 'typebox'
import { Group } from '../../config/shape/user.ts'
import type { Document } from '../../gateway/store/store.ts'
import { type Caller, owns } from '../caller.ts'
import { Answer, type Call, type Endpoint, endpoint, etag, Refused } from '../endpoint.ts'
import { envelope, ok } from '../envelope.ts'
import { newId } from '../ids.ts'
import { listPage, paging } from '../page.ts'
import type { Permissions } from '../permissions.ts'
import type { ControlTools } from '../tools.ts'
import { changing } from '../tries.ts'
import type { GroupRecord, UserRecord } from '../users.ts'
import { mayHandle } from '../writeUsers.ts'

/** User groups of the caller's organisation (semantics §2.8): what a group may do, its members may do instead of their own. */

const strict = { additionalProperties: false } as const
const nothing = Type.Object({}, strict)
const GroupId = Type.Object({ id: Type.String({ minLength: 1, maxLength: 256 }) }, strict)
const Paging = Type.Object(paging, strict)
const noBody = { bodyForm: 'none', body: Type.Unknown(), malformed: '' } as const
const withBody = {
  bodyForm: 'json',
  body: Group,
  malformed: 'Request body malformed.',
  invalid: 'User group object validation failed.'
} as const
const common = { door: 'management', query: nothing } as const
const UNKNOWN = 'User group not found'

const listGroups = endpoint({
  ...common,
  ...noBody,
  method: 'GET',
  path: '/api/usergroups',
  summary: 'User groups of the organisation',
  params: nothing,
  query: Paging,
  answer: Type.Object({ groups: Type.Array(Group), pages: Type.Integer() }, strict),
  handle: ({ query, caller }, tools) => listPage<GroupRecord>(tools, 'group', orgOf(caller), query, 'groups', shown)
})

const readGroup = endpoint({
  ...common,
  ...noBody,
  method: 'GET',
  path: '/api/usergroups/{id}',
  summary: 'A user group',
  params: GroupId,
  answer: Group,
  async handle({ params, caller }, tools) {
    const document = await own(params.id, caller, tools)
    return new Answer(200, shown(document), etag(document.rev))
  }
})

const addGroup = endpoint({
  ...common,
  ...withBody,
  method: 'POST',
  path: '/api/usergroups',
  summary: 'Creates a user group, with permissions that the caller has too',
  params: nothing,
  answer: envelope(Type.String({ description: 'Id of the group' })),
  async handle({ body, caller }, tools) {
    const org = orgOf(caller)
    ofOrg(body, org)
    const id = newId(tools)
    if (body._id) throw new Refused(400, 'A user group gets its id here')
    const empty = { name: '', description: '', active: true, user_permissions: {}, password_max_days: 0 }
    const made = laid({ ...empty, last_updated: '' }, body, tools)
    named(made)
    mayHandle(caller, made.user_permissions)
    await put(id, org, made, 0, tools)
    return new Answer(200, ok('User group created', id), etag(1))
  }
})

const updateGroup = endpoint({
  ...common,
  ...withBody,
  method: 'PUT',
  path: '/api/usergroups/{id}',
  summary: 'Changes the members that are given; it counts for the next call of its users',
  params: GroupId,
  answer: envelope(Type.Null()),
  async handle(call, tools) {
    const { params, body, caller } = call
    const rev = await change(params.id, call, tools, async ({ id, org, body: before }) => {
      ofOrg(body, org)
      if (body._id && body._id !== id) throw new Refused(400, 'The id of a user group does not change')
      const next = laid(before, body, tools)
      named(next)
      mayHandle(caller, next.user_permissions)
      if (!isDeepStrictEqual(inForce(before), inForce(next))) await mayGovern(id, caller, tools)
      return next
    })
    return new Answer(200, ok('User group updated'), etag(rev))
  }
})

const deleteGroup = endpoint({
  ...common,
  ...noBody,
  method: 'DELETE',
  path: '/api/usergroups/{id}',
  summary: 'Deletes a user group; its members have their own permissions again',
  params: GroupId,
  answer: envelope(Type.Null()),
  async handle(call, tools) {
    await change(call.params.id, call, tools, async ({ id }) => {
      await mayGovern(id, call.caller, tools)
      return null
    })
    return ok('User group deleted')
  }
})

function orgOf({ org }: Caller): string {
  return org ?? 'default'
}

function shown({ id, org, body }: Document<GroupRecord>): Group {
  return { _id: id, org_id: org, ...body }
}

/** @throws Refused 403 */
function ofOrg({ org_id }: Group, org: string): void {
  if (org_id && org_id !== org) throw new Refused(403, 'access denied: The user group belongs to another organisation')
}

/** @throws Refused 400 */
function named({ name }: GroupRecord): void {
  if (name === '')
    throw new Refused(400, withBody.invalid, { more: { faults: [{ pointer: '/name', message: 'is required' }] } })
}

function laid(before: GroupRecord, given: Group, { clock }: ControlTools): GroupRecord {
  const { _id, org_id, last_updated: _when, ...members } = given
  return { ...before, ...members, last_updated: new Date(clock.now()).toISOString() }
}

async function own(id: string, caller: Caller, { store }: ControlTools): Promise<Document<GroupRecord>> {
  const document = await store.get<GroupRecord>('group', id)
  if (document === null || !owns(caller, document.org)) throw new Refused(404, UNKNOWN)
  return document
}

/** What members may do by it; null: nothing, they have their own permissions. */
function inForce({ active, user_permissions }: GroupRecord): Permissions | null {
  return active ? user_permissions : null
}

/**
 * Members have the group's permissions instead of their own: whoever changes, gives or takes the one or brings back the
 * other has both.
 * @throws Refused 403
 */
async function mayGovern(id: string, caller: Caller, { store }: ControlTools): Promise<void> {
  for await (const documents of store.each<UserRecord>('user', { org: orgOf(caller) }))
    for (const { body } of documents) if (body.user.group_id === id) mayHandle(caller, body.user.user_permissions)
}

type Asked = Pick<Call<unknown, unknown, unknown>, 'caller' | 'matched' | 'changed'>

/** Answers the new revision; null deletes. @throws Refused */
function change(
  id: string,
  { caller, matched, changed }: Asked,
  tools: ControlTools,
  make: (document: Document<GroupRecord>) => Promise<GroupRecord | null>
): Promise<number> {
  return changing('group', id, async () => {
    const before = await own(id, caller, tools)
    matched(before.rev)
    mayHandle(caller, before.body.user_permissions)
    const next = await make(before)
    if (next !== null) changed(before.body, next)
    await put(id, before.org, next, before.rev, tools)
    return before.rev + 1
  })
}

/** Answers once the next call of a member counts by it. */
async function put(
  id: string,
  org: string,
  body: GroupRecord | null,
  expect: number,
  { store, changes }: ControlTools
): Promise<void> {
  const write = { kind: 'group', id, expect } as const
  const sequence = await store.commit([body === null ? { ...write, body } : { ...write, org, body }])
  await changes.publish([{ sequence, kind: 'group', id, deleted: body === null }])
}

export const groups: readonly Endpoint[] = [listGroups, addGroup, readGroup, updateGroup, deleteGroup]
