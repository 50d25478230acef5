import Type from 'typebox'
import { Hook, hookFaults } from '../../config/shape/hook.ts'
import type { Fault } from '../../config/validate.ts'
import { Conflict, type Document, type Store, type Write } from '../../gateway/store/store.ts'
import { type Caller, owns } from '../caller.ts'
import { Answer, type Call, type Endpoint, endpoint, etag, Refused, toldFaults } from '../endpoint.ts'
import { type HookRecord, maskedHook } from '../hooks.ts'
import { newId } from '../ids.ts'
import { holderOf, NameTaken, nameWrites } from '../names.ts'
import { listPage, paging } from '../page.ts'
import type { ControlTools } from '../tools.ts'
import { tried } from '../tries.ts'

/** Webhooks that policies and APIs refer to (semantics §2.8): kept and checked. */

const strict = { additionalProperties: false } as const
const HookId = Type.Object({ id: Type.String({ description: 'Database id or webhook_id' }) }, strict)
const nothing = Type.Object({}, strict)
const Done = Type.Object(
  {
    Message: Type.String(),
    Meta: Type.Union([Type.String({ description: 'Database id of a new webhook' }), Type.Null()]),
    Status: Type.Literal('OK')
  },
  strict
)
const malformed = 'Request body malformed.'
const UNKNOWN = 'Webhook not found.'

const done = (Message: string, Meta: string | null = null) => ({ Message, Meta, Status: 'OK' })

const list = endpoint({
  method: 'GET',
  path: '/api/hooks',
  door: 'management',
  summary: 'Lists webhooks, oldest first',
  params: nothing,
  query: Type.Object(paging, strict),
  bodyForm: 'none',
  body: Type.Unknown(),
  malformed,
  answer: Type.Object({ hooks: Type.Array(Hook), pages: Type.Integer({ minimum: 0 }) }, strict),
  handle: ({ query, caller }, tools) =>
    listPage<HookRecord>(tools, 'hook', caller.org, query, 'hooks', ({ body }) => body)
})

const read = endpoint({
  method: 'GET',
  path: '/api/hooks/{id}',
  door: 'management',
  summary: 'Reads a webhook',
  params: HookId,
  query: nothing,
  bodyForm: 'none',
  body: Type.Unknown(),
  malformed,
  answer: Hook,
  async handle({ params, caller }, { store }) {
    const { body, rev } = await own(params.id, caller, 'Could not retrieve webhook detail.', store)
    return new Answer(200, body, etag(rev))
  }
})

const create = endpoint({
  method: 'POST',
  path: '/api/hooks',
  door: 'management',
  summary: 'Creates a webhook; method and target_path are required',
  params: nothing,
  query: nothing,
  bodyForm: 'json',
  body: Hook,
  malformed,
  answer: Done,
  async handle({ body, caller }, tools) {
    const hook = record(body, newId(tools), body.org_id || caller.org || 'default', caller)
    try {
      await put(null, hook, tools.store)
    } catch (cause) {
      throw cause instanceof Conflict ? duplicate() : cause
    }
    return new Answer(200, done('Webhook created', hook.id), etag(1))
  }
})

const update = endpoint({
  method: 'PUT',
  path: '/api/hooks/{id}',
  door: 'management',
  summary: 'Replaces a webhook; its webhook_id stays where none is given',
  params: HookId,
  query: nothing,
  bodyForm: 'json',
  body: Hook,
  malformed,
  answer: Done,
  async handle(call, { store }) {
    const rev = await change(call, store, async present => {
      const webhook_id = call.body.webhook_id || present.body.webhook_id
      const hook = record({ ...call.body, webhook_id }, present.id, present.org, call.caller)
      call.changed(maskedHook(present.body), maskedHook(hook))
      await put(present, hook, store)
      return present.rev + 1
    })
    return new Answer(200, done('Hook updated'), etag(rev))
  }
})

const remove = endpoint({
  method: 'DELETE',
  path: '/api/hooks/{id}',
  door: 'management',
  summary: 'Deletes a webhook',
  params: HookId,
  query: nothing,
  bodyForm: 'none',
  body: Type.Unknown(),
  malformed,
  answer: Done,
  async handle(call, { store }) {
    await change(call, store, async ({ id, org, rev, body }) => {
      const freed = await nameWrites('hook', id, { org, name: body.webhook_id }, null, store)
      return store.commit([{ kind: 'hook', id, body: null, expect: rev }, ...freed])
    })
    return done('Webhook deleted')
  }
})

export const hooks: readonly Endpoint[] = [list, create, read, update, remove]

type Reading = Pick<Store, 'get'>

/** @throws Refused 404 */
async function own(id: string, caller: Caller, unknown: string, store: Reading): Promise<Document<HookRecord>> {
  const direct = await store.get<HookRecord>('hook', id)
  if (direct !== null && owns(caller, direct.org)) return direct
  const holder = await holderOf('hook', { org: caller.org ?? 'default', name: id }, store)
  const document = holder === null ? null : await store.get<HookRecord>('hook', holder)
  if (document === null) throw new Refused(404, unknown)
  return document
}

function change<T>(
  { params, caller, matched }: Call<{ id: string }, unknown, unknown>,
  store: ControlTools['store'],
  write: (present: Document<HookRecord>) => Promise<T>
): Promise<T> {
  return tried('webhook', async () => {
    const present = await own(params.id, caller, UNKNOWN, store)
    matched(present.rev)
    return write(present)
  })
}

/** @throws Refused 400 with all faults, 403 for another organisation */
function record(given: Hook, id: string, org_id: string, caller: Caller): HookRecord {
  const faults: Fault[] = hookFaults(given, '')
  for (const member of ['method', 'target_path'] as const)
    if (given[member] === undefined) faults.push({ path: `/${member}`, message: 'is required' })
  if (faults.length > 0)
    throw new Refused(400, 'Webhook object validation failed.', { more: { faults: toldFaults(faults) } })
  if (!owns(caller, given.org_id || org_id))
    throw new Refused(403, 'access denied: the webhook belongs to another organisation')
  return {
    api_model: given.api_model ?? {},
    event_timeout: given.event_timeout ?? 0,
    header_map: given.header_map ?? {},
    id,
    method: given.method!,
    name: given.name ?? '',
    org_id,
    target_path: given.target_path!,
    template_path: given.template_path ?? '',
    webhook_id: given.webhook_id || id
  }
}

/** @throws Conflict; Refused 409 when its webhook_id is taken */
async function put(
  present: Document<HookRecord> | null,
  hook: HookRecord,
  store: ControlTools['store']
): Promise<void> {
  const { id, org_id: org, webhook_id: name } = hook
  if (name !== id && (await store.get('hook', name))?.org === org) throw duplicate()
  const before = present === null ? null : { org, name: present.body.webhook_id }
  try {
    const writes: Write[] = await nameWrites('hook', id, before, { org, name }, store)
    await store.commit([{ kind: 'hook', id, org, body: hook, expect: present?.rev ?? 0 }, ...writes])
  } catch (cause) {
    throw cause instanceof NameTaken ? duplicate() : cause
  }
}

function duplicate(): Refused {
  return new Refused(409, 'Duplicate webhook_id.')
}
