import Type, { type Static } from 'typebox'
import { Key, KeyGiven } from '../../config/shape/key.ts'
import type { Invalid } from '../../config/validate.ts'
import { embeddedOrg } from '../../gateway/keys/token.ts'
import { Answer, endpoint, etag, Refused } from '../endpoint.ts'
import type { KeyTexts } from '../keys/given.ts'
import { everyKey, listedId, mayList, pageOfKeys } from '../keys/listing.ts'
import { type KeyDocument, locate, type Sought, shown } from '../keys/reading.ts'
import { applyToKey, createGenerated, createNamed, deleteKey, preview, replaceKey } from '../keys/writing.ts'
import { LARGEST_PAGE, mapped, streamedJson } from '../page.ts'
import type { ControlTools } from '../tools.ts'

const KeyResponse = Type.Object({
  key: Type.String({ description: 'Empty for a user of basic authentication while keys are hashed' }),
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

// Semantics §1.9 and §2.4.
const invalid = (cause: Invalid) => `Request malformed: ${cause.message}`
const creation: KeyTexts = {
  invalid,
  rightless: 'Failed to create key, keys must have at least one Access Rights record set.'
}
const change: KeyTexts = { invalid, rightless: 'Failed to create key, ensure security settings are correct.' }

export const keys = [
  endpoint({
    method: 'POST',
    path: '/svc/keys/create',
    door: 'gateway',
    summary: 'Creates a key under a new token',
    params: nothing,
    query: nothing,
    bodyForm: 'json',
    body: KeyGiven,
    malformed: 'Unmarshalling failed',
    answer: KeyResponse,
    async handle({ body }, tools) {
      const { token, document } = await createGenerated(body, body.org_id || 'default', creation, tools)
      return added(token, document, tools)
    }
  }),

  endpoint({
    method: 'POST',
    path: '/svc/keys/preview',
    door: 'gateway',
    intent: 'read',
    summary: 'The key as its policies make it, without storing it',
    params: nothing,
    query: nothing,
    bodyForm: 'json',
    body: KeyGiven,
    malformed: 'Request malformed',
    answer: Key,
    async handle({ body, caller }, tools) {
      return shown(await preview(body, body.org_id || 'default', creation, tools), caller, tools)
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
    body: KeyGiven,
    malformed: 'Request malformed',
    answer: KeyResponse,
    async handle({ params, query, body }, tools) {
      const org = body.org_id || query.org_id || 'default'
      const document = await createNamed(params.keyID, body, org, change, tools)
      const isUser = Boolean(document.body.key.basic_auth_data?.password)
      return added(isUser && tools.settings.gateway.hash_keys ? '' : params.keyID, document, tools)
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
    body: KeyGiven,
    malformed: 'Request malformed',
    answer: KeyResponse,
    async handle(call, tools) {
      const { params, query, body } = call
      const where = query.org_id || body.org_id ? { ...query, org_id: query.org_id || body.org_id! } : query
      const find = () => found(params.keyID, where, 'Key is not found', tools)
      const counts = query.suppress_reset === '1' ? 'keeps' : 'resets'
      const { rev } = await replaceKey(find, body, counts, change, call, tools)
      return new Answer(200, { key: params.keyID, status: 'ok', action: 'modified' }, etag(rev))
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
    async handle(call, tools) {
      const { params, query, body } = call
      const apply_policies = body.apply_policies ?? (body.policy ? [body.policy] : null)
      if (apply_policies === null) throw new Refused(400, "Couldn't decode instruction")
      const find = () => found(params.keyID, query, 'Key not found', tools)
      await applyToKey(find, apply_policies, creation, call, tools)
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
    async handle({ params, query, caller }, tools) {
      const document = await found(params.keyID, query, 'Key not found', tools)
      return new Answer(200, await shown(document, caller, tools), etag(document.rev))
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
    async handle(call, tools) {
      const { params, query } = call
      await deleteKey(() => found(params.keyID, query, 'There is no such key found', tools), call, tools)
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
    async handle({ query: { filter = '', api_id, p, page_size } }, tools) {
      const { settings } = tools
      if (!mayList(settings))
        throw new Refused(404, 'Hashed key listing is disabled in config (enable_hashed_keys_listing)')
      if (!settings.gateway.hash_keys && api_id && !filter)
        throw new Refused(400, 'filter is required with api_id while keys are not hashed')
      const page = Number(p ?? -1)
      const size = Number(page_size ?? Math.min(settings.management.page_size, LARGEST_PAGE))
      if (size < 1 || size > LARGEST_PAGE) throw new Refused(400, `page_size must lie between 1 and ${LARGEST_PAGE}`)
      const wanted = { org: null, part: filter, ...(api_id ? { apiId: api_id } : {}) }
      const show = (document: KeyDocument) => listedId(document, tools)
      if (page < 0) return streamedJson('{"keys":[', mapped(everyKey(wanted, tools), show), () => ']}')
      const { documents, pages } = await pageOfKeys(wanted, { page: Math.max(1, page), size }, tools)
      return { keys: documents.map(show), pages }
    }
  })
]

/** @throws Refused */
async function found(keyId: string, asked: Which, unknown: string, tools: ControlTools): Promise<KeyDocument> {
  const named = asked.org_id || (asked.api_id ? tools.apis.get(asked.api_id)?.orgId : undefined)
  const isHash = asked.hashed === 'true' || asked.hashed === '1'
  const by: Sought['by'] = isHash ? 'hash' : asked.username === 'true' ? 'username' : 'id'
  const orgs = named ? [named] : ['default', embeddedOrg(keyId) ?? 'default']
  const document = await locate({ id: keyId, by, orgs }, tools)
  if (document === null || (named && !isHash && document.org !== named)) throw new Refused(404, unknown)
  return document
}

function added(key: string, { id, rev }: KeyDocument, { settings }: ControlTools): Answer {
  const { hash_keys } = settings.gateway
  const body = { key, status: 'ok', action: 'added', ...(hash_keys ? { key_hash: id } : {}) }
  return new Answer(200, body, etag(rev))
}
