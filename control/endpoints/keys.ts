import Type, { type Static } from 'typebox'
import { Key } from '../../config/shape/key.ts'
import type { AccessRight } from '../../config/shape/limit.ts'
import { Invalid } from '../../config/validate.ts'
import { ruleFaults } from '../../gateway/keys/check.ts'
import type { KeyRecord, Session } from '../../gateway/keys/keys.ts'
import { goneAt } from '../../gateway/keys/lifetime.ts'
import { readBack } from '../../gateway/keys/readBack.ts'
import { customId, embeddedOrg, idFault, newToken, tokenId } from '../../gateway/keys/token.ts'
import { Conflict, type Document } from '../../gateway/store/store.ts'
import { Answer, endpoint, Refused, toldFaults } from '../endpoint.ts'
import type { ControlTools } from '../tools.ts'

const KeyResponse = Type.Object({
  key: Type.String(),
  status: Type.Literal('ok'),
  action: Type.Enum(['added', 'modified', 'updated', 'deleted']),
  key_hash: Type.Optional(Type.String())
})

const strict = { additionalProperties: false } as const
const KeyId = Type.Object({ keyID: Type.String() }, strict)
const Text = (description: string) => Type.Optional(Type.String({ description }))
const which = {
  hashed: Text('`true` or `1`: the id is the hash of a key'),
  username: Text('`true`: the id is a user name, never a token'),
  org_id: Text('Organisation of a custom id; default: that of `api_id`, else `default`'),
  api_id: Text('An API of the organisation')
}
const Which = Type.Object(which, strict)
type Which = Static<typeof Which>
const nothing = Type.Object({}, strict)

// Semantics §1.9 and §2.4: what a key without rights is told, where master keys are off.
const NO_RIGHTS = 'Failed to create key, keys must have at least one Access Rights record set.'
const UNSAFE = 'Failed to create key, ensure security settings are correct.'

/** Longest answer of a list without pages. */
const MOST_LISTED = 100_000
/** Most keys of one page. */
const LARGEST_PAGE = 1000
/** Keys read at once by a walk through all of them: a millisecond's work, so that requests get their turn. */
const WALKED = 250
/** Tries of a change that others get ahead of; each time somebody's change succeeds. */
const MOST_TRIES = 100

export const keys = [
  endpoint({
    method: 'POST',
    path: '/svc/keys/create',
    door: 'gateway',
    summary: 'Creates a key under a new token',
    params: nothing,
    query: nothing,
    bodyForm: 'json',
    body: Key,
    malformed: 'Unmarshalling failed',
    answer: KeyResponse,
    async handle({ body }, tools) {
      const org = body.org_id || 'default'
      const token = newToken(tools.random)
      const name = tools.settings.gateway.hash_keys ? null : token
      const hash = tokenId(token)
      const key = await toCreate(body, org, tools)
      await put(hash, org, { name, generated: true, key }, 0, tools)
      await restart([await session(hash, org, key, tools)], tools)
      tools.events.emit('TokenCreated', 'Key generated.', { key: hash })
      return added(token, hash, tools)
    }
  }),

  endpoint({
    method: 'POST',
    path: '/svc/keys/preview',
    door: 'gateway',
    summary: 'The key as its policies make it, without storing it',
    params: nothing,
    query: nothing,
    bodyForm: 'json',
    body: Key,
    malformed: 'Request malformed',
    answer: Key,
    async handle({ body }, tools) {
      const org = body.org_id || 'default'
      const key = await toCreate(body, org, tools)
      return readBack((await session('', org, key, tools)) ?? tools.keys.session('', org, key), tools.counters)
    }
  }),

  endpoint({
    method: 'POST',
    path: '/svc/keys/{keyID}',
    door: 'gateway',
    summary: 'Creates a key under an id of your own',
    params: KeyId,
    query: Type.Object({ org_id: which.org_id }, strict),
    bodyForm: 'json',
    body: Key,
    malformed: 'Request malformed',
    answer: KeyResponse,
    async handle({ params, query, body }, tools) {
      const { keyID } = params
      const fault = idFault(keyID, tools.settings.gateway.min_token_length)
      if (fault !== null) throw new Refused(400, fault)
      const org = body.org_id || query.org_id || 'default'
      const hash = customId(org, keyID)
      const key = await toCreate(body, org, tools, UNSAFE)
      const before = await tools.store.get<KeyRecord>('key', hash)
      const expect = before === null || (await present(before, tools)) !== null ? 0 : before.rev
      try {
        await put(hash, org, { name: keyID, generated: false, key }, expect, tools)
      } catch (cause) {
        if (cause instanceof Conflict) throw new Refused(409, 'A key of this id exists already')
        throw cause
      }
      await restart([await session(hash, org, key, tools)], tools)
      tools.events.emit('TokenCreated', 'Key modified.', { key: hash })
      return added(keyID, hash, tools)
    }
  }),

  endpoint({
    method: 'PUT',
    path: '/svc/keys/{keyID}',
    door: 'gateway',
    summary: 'Replaces a key',
    params: KeyId,
    query: Type.Object({ ...which, suppress_reset: Text('`1`: what was counted stays') }, strict),
    bodyForm: 'json',
    body: Key,
    malformed: 'Request malformed',
    answer: KeyResponse,
    async handle({ params, query, body }, tools) {
      const resets = query.suppress_reset !== '1'
      const where = query.org_id || body.org_id ? { ...query, org_id: query.org_id || body.org_id! } : query
      const { before, after } = await change(params.keyID, where, 'Key is not found', tools, document =>
        toUpdate(body, document, resets ? 'resets' : 'keeps', tools)
      )
      if (resets) await restart([await session(before.id, before.org, before.body.key, tools), after], tools)
      tools.events.emit('TokenUpdated', 'Key modified.', { key: before.id })
      return { key: params.keyID, status: 'ok', action: 'modified' }
    }
  }),

  endpoint({
    method: 'POST',
    path: '/svc/keys/policy/{keyID}',
    door: 'gateway',
    summary: 'Gives a key other policies; what was counted stays',
    params: KeyId,
    query: Which,
    bodyForm: 'json',
    body: Type.Object(
      { policy: Type.Optional(Type.String({ maxLength: 256 })), apply_policies: Key.properties.apply_policies },
      { additionalProperties: false, minProperties: 1 }
    ),
    malformed: "Couldn't decode instruction",
    answer: KeyResponse,
    async handle({ params, query, body }, tools) {
      const apply_policies = body.apply_policies ?? (body.policy ? [body.policy] : null)
      if (apply_policies === null) throw new Refused(400, "Couldn't decode instruction")
      const { before } = await change(params.keyID, query, 'Key not found', tools, async ({ org, body: { key } }) => {
        const next = { ...key, apply_policies, last_updated: seconds(tools) }
        await checked(next, org, 'update', tools)
        return next
      })
      tools.events.emit('TokenUpdated', 'Key modified.', { key: before.id })
      return { key: params.keyID, status: 'ok', action: 'updated' }
    }
  }),

  endpoint({
    method: 'GET',
    path: '/svc/keys/{keyID}',
    door: 'gateway',
    summary: 'Reads a key with its policies applied and its quota as it stands',
    params: KeyId,
    query: Which,
    bodyForm: 'none',
    body: Type.Unknown(),
    malformed: '',
    answer: Key,
    async handle({ params, query }, tools) {
      const document = await locate(params.keyID, query, tools)
      if (document === null) throw new Refused(404, 'Key not found')
      const { id, org, body } = document
      // A key whose policies are gone opens nothing, but its owner may look at it and mend it.
      const shown = (await session(id, org, body.key, tools)) ?? tools.keys.session(id, org, body.key)
      return readBack(shown, tools.counters)
    }
  }),

  endpoint({
    method: 'DELETE',
    path: '/svc/keys/{keyID}',
    door: 'gateway',
    summary: 'Deletes a key; it opens nothing from the next request on',
    params: KeyId,
    query: Which,
    bodyForm: 'none',
    body: Type.Unknown(),
    malformed: '',
    answer: Type.Union([KeyResponse, Type.Null()]),
    async handle({ params, query }, tools) {
      const { before } = await change(params.keyID, query, 'There is no such key found', tools, async () => null)
      const gone = await session(before.id, before.org, before.body.key, tools)
      if (gone !== null) await tools.counters.forget(gone.counterIds())
      tools.events.emit('TokenDeleted', 'Key deleted.', { key: before.id })
      if (query.api_id === '-1') return new Answer(200, null)
      return { key: params.keyID, status: 'ok', action: 'deleted' }
    }
  }),

  endpoint({
    method: 'GET',
    path: '/svc/keys',
    door: 'gateway',
    summary: 'Ids of keys: custom ids as they are, generated tokens as their hash',
    params: nothing,
    query: Type.Object({
      filter: Text('Only ids that contain this text'),
      api_id: Text('Only keys that open this API'),
      p: Type.Optional(
        Type.String({ pattern: '^-?\\d{1,9}$', description: 'Page from 1; below 0, or without it: all' })
      ),
      page_size: Type.Optional(
        Type.String({
          pattern: '^\\d{1,9}$',
          description: `Keys of a page, at most ${LARGEST_PAGE}; default: management.page_size`
        })
      )
    }),
    bodyForm: 'none',
    body: Type.Unknown(),
    malformed: '',
    answer: Type.Object({ keys: Type.Array(Type.String()), pages: Type.Optional(Type.Integer()) }),
    handle: ({ query }, tools) => list(query, tools)
  })
]

/** A key as it is to be stored, from the body of a creation. @throws Refused */
async function toCreate(body: Key, org: string, tools: ControlTools, masterText = NO_RIGHTS): Promise<Key> {
  const key = written(body)
  if (key.hmac_enabled && !key.hmac_string) key.hmac_string = newSecret(tools)
  const { applied, expiresIn } = await checked(key, org, 'create', tools, masterText)
  if (applied.hmac_enabled && !key.hmac_string) key.hmac_string = newSecret(tools)
  const now = Math.floor(tools.clock.now() / 1000)
  if (expiresIn > 0) key.expires = now + expiresIn
  key.org_id = org
  key.date_created = new Date(tools.clock.now()).toISOString()
  key.last_updated = String(now)
  startQuotas(key, applied, now)
  return key
}

/** A key as it is to be stored, from the body of a replacement. @throws Refused */
async function toUpdate(
  body: Key,
  { org, body: record }: Document<KeyRecord>,
  counts: 'resets' | 'keeps',
  tools: ControlTools
): Promise<Key> {
  const before = record.key
  if (body.org_id && body.org_id !== org)
    throw new Refused(400, 'Request malformed: /org_id a key stays in its organisation')
  const key = written(body)
  const now = Math.floor(tools.clock.now() / 1000)
  if ((key.expires ?? 0) > 1 && key.expires! < now) {
    if (before.expires === undefined) delete key.expires
    else key.expires = before.expires
  }
  if (key.hmac_enabled && !key.hmac_string) key.hmac_string = before.hmac_string || newSecret(tools)
  const { applied } = await checked(key, org, 'update', tools, UNSAFE)
  key.org_id = org
  if (before.date_created !== undefined) key.date_created = before.date_created
  key.last_updated = String(now)
  if (counts === 'resets') startQuotas(key, applied, now)
  else keepQuotas(key, before)
  return key
}

/** The members that a writer decides on, under their present names. */
function written(body: Key): Key {
  const {
    apply_policy_id,
    enable_detail_recording,
    key_id: _id,
    quota_remaining: _remaining,
    quota_renews: _renews,
    ...key
  } = body
  if (!key.apply_policies?.length && apply_policy_id) key.apply_policies = [apply_policy_id]
  key.enable_detailed_recording ??= enable_detail_recording
  if (key.enable_detailed_recording === undefined) delete key.enable_detailed_recording
  if (key.access_rights) {
    const rights = Object.entries(key.access_rights).map(([apiId, right]): [string, AccessRight] => {
      if (!right.limit) return [apiId, right]
      const { quota_remaining: _live, quota_renews: _computed, ...limit } = right.limit
      return [apiId, { ...right, limit }]
    })
    key.access_rights = Object.fromEntries(rights)
  }
  return key
}

/** The key with its policies, if it may be saved so. @throws Refused */
async function checked(
  key: Key,
  org: string,
  action: 'create' | 'update',
  tools: ControlTools,
  masterText = NO_RIGHTS
): Promise<{ applied: Key; expiresIn: number }> {
  const { settings, policies } = tools
  notBuilt(key)
  try {
    const matching = { matching: settings.gateway.endpoint_matching, ignoreCase: false } as const
    const faults = ruleFaults(key, matching)
    if (faults.length > 0) throw new Invalid(faults)
    const result = await tools.keys.applied(org, key)
    if ('problem' in result) throw new Refused(400, `Failed to ${action} key - ${result.problem}`)
    // Policies that are sound each may be too much together.
    const together = ruleFaults({ access_rights: result.key.access_rights ?? null }, matching)
    if (together.length > 0) throw new Invalid(together)
    if (Object.keys(result.key.access_rights ?? {}).length === 0 && !settings.gateway.allow_master_keys)
      throw new Refused(400, masterText)
    const named = await policies.of(key, org)
    const draft = action === 'create' ? named.find(({ policy }) => policy?.active === false) : undefined
    if (draft !== undefined) throw new Refused(400, `Failed to create key - policy ${draft.id} is not active`)
    // Of several policies with a lifetime the last counts.
    const expiresIn = named.reduce((last, { policy }) => policy?.key_expires_in || last, 0)
    return { applied: result.key, expiresIn }
  } catch (cause) {
    if (!(cause instanceof Invalid)) throw cause
    throw new Refused(400, `Request malformed: ${cause.message}`.slice(0, 2000), {
      more: { faults: toldFaults(cause.faults) }
    })
  }
}

/** What would look like protection without being one is refused. @throws Refused */
function notBuilt({ basic_auth_data, certificate, mtls_static_certificate_bindings }: Key): void {
  if (basic_auth_data?.password)
    throw new Refused(400, 'basic_auth_data.password: basic authentication is not built yet')
  if (certificate) throw new Refused(400, 'Key must be used with an existent certificate')
  const binding = mtls_static_certificate_bindings?.[0]
  if (binding !== undefined) throw new Refused(400, `certificate not found: ${binding}`)
}

function newSecret({ random }: ControlTools): string {
  return random.bytes(32).toString('base64')
}

function seconds({ clock }: ControlTools): string {
  return String(Math.floor(clock.now() / 1000))
}

/** Quotas begin now; the periods themselves begin with the first request. */
function startQuotas(key: Key, applied: Key, now: number): void {
  if ((applied.quota_max ?? 0) > 0) key.quota_renews = now + Math.max(0, applied.quota_renewal_rate ?? 0)
  for (const { limit } of Object.values(key.access_rights ?? {})) {
    if (limit?.quota_max && limit.quota_max > 0) limit.quota_renews = now + Math.max(0, limit.quota_renewal_rate ?? 0)
  }
}

function keepQuotas(key: Key, before: Key): void {
  if (before.quota_renews !== undefined) key.quota_renews = before.quota_renews
  if (before.last_updated !== undefined) key.last_updated = before.last_updated
  const known = new Map(Object.entries(before.access_rights ?? {}))
  for (const [apiId, { limit }] of Object.entries(key.access_rights ?? {})) {
    const renews = known.get(apiId)?.limit?.quota_renews
    if (limit && renews !== undefined) limit.quota_renews = renews
  }
}

/** Null: its policies cannot be applied. */
async function session(hash: string, org: string, key: Key, { keys }: ControlTools): Promise<Session | null> {
  const applied = await keys.applied(org, key)
  return 'key' in applied ? keys.session(hash, org, applied.key) : null
}

/** Counting begins anew, but on APIs that skip it. */
async function restart(sessions: readonly (Session | null)[], { counters, apis }: ControlTools): Promise<void> {
  const ids = sessions.flatMap(each => each?.counterIds(apiId => apis.get(apiId)?.skipQuotaReset !== true) ?? [])
  await counters.forget([...new Set(ids)])
}

/** Answers once the next request counts by it. @throws Conflict when the key has another revision than `expect` */
async function put(
  hash: string,
  org: string,
  record: KeyRecord | null,
  expect: number,
  { store, changes }: ControlTools
): Promise<void> {
  const write = { kind: 'key', id: hash, expect } as const
  const sequence = await store.commit([record === null ? { ...write, body: null } : { ...write, org, body: record }])
  await changes.publish([{ sequence, kind: 'key', id: hash, deleted: record === null }])
}

/** Changes a key from what it is now, whoever else changes it; null deletes it. @throws Refused */
async function change(
  keyId: string,
  asked: Which,
  unknown: string,
  tools: ControlTools,
  make: (document: Document<KeyRecord>) => Promise<Key | null>
): Promise<{ before: Document<KeyRecord>; after: Session | null }> {
  for (let tries = 0; tries < MOST_TRIES; tries++) {
    const before = await locate(keyId, asked, tools)
    if (before === null) throw new Refused(404, unknown)
    const key = await make(before)
    try {
      await put(before.id, before.org, key === null ? null : { ...before.body, key }, before.rev, tools)
      return { before, after: key === null ? null : await session(before.id, before.org, key, tools) }
    } catch (cause) {
      if (!(cause instanceof Conflict)) throw cause
    }
  }
  throw new Refused(409, 'The key is being changed by others')
}

/** Null: it is gone (semantics §4.5). */
async function present(
  document: Document<KeyRecord> | null,
  { keys, clock }: ControlTools
): Promise<Document<KeyRecord> | null> {
  if (document === null) return null
  const { key } = document.body
  const applied = await keys.applied(document.org, key)
  return clock.now() < goneAt('key' in applied ? applied.key : key, key.last_updated) ? document : null
}

/** @throws Refused */
async function locate(keyId: string, asked: Which, tools: ControlTools): Promise<Document<KeyRecord> | null> {
  return present(await lookUp(keyId, asked, tools), tools)
}

async function lookUp(
  keyId: string,
  asked: Which,
  { settings, store, apis }: ControlTools
): Promise<Document<KeyRecord> | null> {
  if (asked.hashed === 'true' || asked.hashed === '1') {
    if (!settings.gateway.hash_keys) throw new Refused(400, 'Key requested by hash but key hashing is not enabled')
    return store.get<KeyRecord>('key', keyId)
  }
  if (idFault(keyId, 1) !== null) return null
  const named = asked.org_id || (asked.api_id ? apis.get(asked.api_id)?.orgId : undefined)
  const orgs = named ? [named] : ['default', embeddedOrg(keyId) ?? 'default']
  for (const org of new Set(orgs)) {
    const document = await store.get<KeyRecord>('key', customId(org, keyId))
    if (document !== null) return document
  }
  if (asked.username === 'true') return null
  const document = await store.get<KeyRecord>('key', tokenId(keyId))
  return named && document?.org !== named ? null : document
}

function added(key: string, hash: string, { settings }: ControlTools): Static<typeof KeyResponse> {
  return { key, status: 'ok', action: 'added', ...(settings.gateway.hash_keys ? { key_hash: hash } : {}) }
}

interface Listed {
  readonly filter?: string
  readonly api_id?: string
  readonly p?: string
  readonly page_size?: string
}

/**
 * Keys oldest first. A page without conditions is one page of the store; conditions walk through all keys, a page of
 * the store at a time, so a key that is deleted meanwhile may hide another.
 */
async function list(
  { filter, api_id, p, page_size }: Listed,
  tools: ControlTools
): Promise<{ keys: string[]; pages?: number }> {
  const { hash_keys, enable_hashed_keys_listing } = tools.settings.gateway
  if (hash_keys && !enable_hashed_keys_listing)
    throw new Refused(404, 'Hashed key listing is disabled in config (enable_hashed_keys_listing)')
  if (!hash_keys && api_id && !filter)
    throw new Refused(400, 'filter is required with api_id while keys are not hashed')
  const shown = ({ id, body }: Document<KeyRecord>) => (body.generated && hash_keys ? id : (body.name ?? id))
  const page = Number(p ?? -1) < 0 ? null : Math.max(1, Number(p))
  const size = Number(page_size ?? Math.min(tools.settings.management.page_size, LARGEST_PAGE))
  if (size < 1 || size > LARGEST_PAGE) throw new Refused(400, `page_size must lie between 1 and ${LARGEST_PAGE}`)
  if (page !== null && !filter && !api_id) {
    const { documents, total } = await tools.store.list<KeyRecord>('key', { page, size })
    return { keys: documents.map(shown), pages: Math.ceil(total / size) }
  }
  const listed: string[] = []
  let matched = 0
  const [from, to] = page === null ? [0, MOST_LISTED] : [(page - 1) * size, page * size]
  for (let next = 1; ; next++) {
    const { documents } = await tools.store.list<KeyRecord>('key', { page: next, size: WALKED })
    for (const document of documents) {
      const id = shown(document)
      if ((filter && !id.includes(filter)) || (api_id && !(await opens(document, api_id, tools)))) continue
      if (matched >= from && matched < to) listed.push(id)
      matched++
    }
    if (page === null && matched > MOST_LISTED)
      throw new Refused(400, `there are more than ${MOST_LISTED} keys: ask for pages with p`)
    if (documents.length < WALKED) break
  }
  return page === null ? { keys: listed } : { keys: listed, pages: Math.ceil(matched / size) }
}

async function opens(
  { org, body }: Document<KeyRecord>,
  apiId: string,
  { keys, settings }: ControlTools
): Promise<boolean> {
  const applied = await keys.applied(org, body.key)
  if (!('key' in applied)) return false
  const rights = applied.key.access_rights ?? {}
  return Object.hasOwn(rights, apiId) || (settings.gateway.allow_master_keys && Object.keys(rights).length === 0)
}
