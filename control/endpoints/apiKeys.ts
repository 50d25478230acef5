import Type, { type Static } from 'typebox'
import { Key, KeyGiven } from '../../config/shape/key.ts'
import { ownApi } from '../apis.ts'
import type { Caller } from '../caller.ts'
import { Answer, endpoint, etag, Refused } from '../endpoint.ts'
import type { KeyTexts } from '../keys/given.ts'
import {
  KeyData,
  type KeyDocument,
  keyIdOf,
  locate,
  opened,
  type Sought,
  shown,
  shownAs,
  wrapped,
  written
} from '../keys/reading.ts'
import { createGenerated, createNamed, deleteKey, type Find, preview, replaceKey } from '../keys/writing.ts'
import type { ControlTools } from '../tools.ts'

const strict = { additionalProperties: false } as const
const Text = (description: string) => Type.Optional(Type.String({ description }))
const which = {
  auto_guess: Text('`true`: the id may be a hash as well'),
  hashed: Text('Any text: the id is the hash of a key'),
  username: Text('`true`: the id is a user name, never a token')
}
const Which = Type.Object(which, strict)
type Which = Static<typeof Which>
const Changing = Type.Object({ ...which, suppress_reset: Text('`1`: what was counted stays') }, strict)
const Creating = Type.Object(
  { basic_auth: Text('`true`: a user of basic authentication, of the name `basic_auth_data.user`') },
  strict
)
const Status = Type.Object({ Status: Type.Literal('OK'), Message: Type.String(), Meta: Type.Null() })

const INVALID = 'User/Key object validation failed, most likely malformed input.'
const NO_PREVIEW = 'User/Key object validation failed.'
const texts: KeyTexts = {
  invalid: () => INVALID,
  rightless: 'Failed to create key, keys must have at least one Access Rights record set.'
}

const reading = { door: 'management', bodyForm: 'none', body: Type.Unknown(), malformed: '' } as const
const writing = {
  door: 'management',
  bodyForm: 'json',
  body: KeyGiven,
  malformed: 'Request body malformed.',
  invalid: INVALID
} as const

/** The same operations twice: on any key of the organisation, and on those that open the API of the path. */
const one = [
  { path: '/api/keys/{keyID}', params: Type.Object({ keyID: Type.String() }, strict) },
  {
    path: '/api/apis/{apiID}/keys/{keyID}',
    params: Type.Object({ apiID: Type.String({ description: 'Id or database id' }), keyID: Type.String() }, strict)
  }
].flatMap(place => [
  endpoint({
    ...reading,
    ...place,
    method: 'GET',
    summary: 'Reads a key with its policies applied and its quota as it stands',
    query: Type.Object({ ...which, written }, strict),
    answer: KeyData,
    async handle({ params, query, caller }, tools) {
      const document = await ownKey(params, query, caller, tools)()
      const data = await wrapped(document, keyIdOf(document, params.keyID), caller, tools, shownAs(query))
      return new Answer(200, data, etag(document.rev))
    }
  }),

  endpoint({
    ...writing,
    ...place,
    method: 'PUT',
    summary: 'Replaces a key',
    query: Changing,
    answer: KeyData,
    async handle(call, tools) {
      const { params, query, body, caller } = call
      orgOfKey(body, caller)
      const counts = query.suppress_reset === '1' ? 'keeps' : 'resets'
      const after = await replaceKey(ownKey(params, query, caller, tools), body, counts, texts, call, tools)
      return answered(after, keyIdOf(after, params.keyID), caller, tools)
    }
  }),

  endpoint({
    ...reading,
    ...place,
    method: 'DELETE',
    summary: 'Deletes a key; it opens nothing from the next request on',
    query: Which,
    answer: Status,
    async handle(call, tools) {
      const { params, query, caller } = call
      await deleteKey(ownKey(params, query, caller, tools), call, tools)
      return { Status: 'OK', Message: 'Key deleted successfully.', Meta: null }
    }
  })
])

const creation = [
  { path: '/api/keys', params: Type.Object({}, strict) },
  { path: '/api/apis/{apiID}/keys', params: Type.Object({ apiID: Type.String() }, strict) }
].map(place =>
  endpoint({
    ...writing,
    ...place,
    method: 'POST',
    summary: 'Creates a key under a new token, which is told only here',
    query: Creating,
    answer: KeyData,
    async handle({ params, query, body, caller }, tools) {
      const { apiID } = params as { apiID?: string }
      if (apiID !== undefined && ownApi(apiID, { caller }, tools) === null) throw new Refused(404, 'API not found')
      const org = orgOfKey(body, caller)
      if (isTrue(query.basic_auth)) {
        const { user = '', password = '' } = body.basic_auth_data ?? {}
        if (user === '' || password.trim() === '')
          throw new Refused(400, 'basic_auth needs basic_auth_data.user and basic_auth_data.password')
        return answered(await createNamed(user, body, org, texts, tools), user, caller, tools)
      }
      const { token, document } = await createGenerated(body, org, texts, tools)
      return answered(document, token, caller, tools)
    }
  })
)

export const apiKeys = [
  ...one,
  ...creation,

  endpoint({
    ...writing,
    method: 'POST',
    path: '/api/keys/{keyID}',
    summary: 'Creates a key under an id of your own',
    params: Type.Object({ keyID: Type.String() }, strict),
    query: Type.Object({}, strict),
    answer: KeyData,
    async handle({ params: { keyID }, body, caller }, tools) {
      const org = orgOfKey(body, caller)
      return answered(await createNamed(keyID, body, org, texts, tools), keyID, caller, tools)
    }
  }),

  endpoint({
    ...writing,
    method: 'POST',
    path: '/api/keys/preview',
    intent: 'read',
    summary: 'The key as its policies make it, without storing it',
    params: Type.Object({}, strict),
    query: Type.Object({}, strict),
    invalid: NO_PREVIEW,
    answer: Key,
    async handle({ body, caller }, tools) {
      const document = await preview(body, orgOfKey(body, caller), { ...texts, invalid: () => NO_PREVIEW }, tools)
      return shown(document, caller, tools)
    }
  }),

  endpoint({
    ...writing,
    method: 'POST',
    path: '/api/apis/keys/basic/{username}',
    summary: 'Creates a user of basic authentication, or replaces it',
    params: Type.Object({ username: Type.String() }, strict),
    query: Type.Object({ suppress_reset: Text('`1`: what was counted stays') }, strict),
    answer: KeyData,
    async handle(call, tools) {
      const { params, query, body, caller } = call
      const { username } = params
      const org = orgOfKey(body, caller)
      const sought: Sought = { id: username, by: 'username', orgs: [org] }
      const needsPassword = (stored: KeyDocument | null) => {
        if (!stored?.body.key.basic_auth_data?.password && !body.basic_auth_data?.password?.trim())
          throw new Refused(400, 'basic_auth_data.password is required')
      }
      if ((await locate(sought, tools)) === null) {
        needsPassword(null)
        call.matched(0)
        try {
          const document = await createNamed(username, body, org, texts, tools)
          return await answered(document, username, caller, tools)
        } catch (cause) {
          // Somebody was quicker.
          if (!(cause instanceof Refused && cause.status === 409)) throw cause
        }
      }
      const find: Find = async () => {
        const document = await locate(sought, tools)
        if (document === null) throw unknown()
        needsPassword(document)
        return document
      }
      const counts = query.suppress_reset === '1' ? 'keeps' : 'resets'
      return answered(await replaceKey(find, body, counts, texts, call, tools), username, caller, tools)
    }
  })
]

/** The organisation that a caller writes keys in: its own. @throws Refused */
function orgOfKey({ org_id }: KeyGiven, { org }: Caller): string {
  const own = org ?? 'default'
  if (org_id && org_id !== own) throw new Refused(403, 'access denied: the key belongs to another organisation')
  return own
}

/** Finds a key of the caller's organisation, which opens the API of the path. */
function ownKey(
  { apiID, keyID }: { apiID?: string; keyID: string },
  query: Which,
  caller: Caller,
  tools: ControlTools
): Find {
  const org = caller.org ?? 'default'
  const by = query.hashed ? 'hash' : isTrue(query.username) ? 'username' : isTrue(query.auto_guess) ? 'guess' : 'id'
  return async () => {
    const document = await locate({ id: keyID, by, orgs: [org] }, tools)
    if (document === null) throw unknown()
    if (document.org !== org) throw new Refused(400, 'Attempted access to non-owned key.')
    if (apiID === undefined) return document
    // Rights outlive their API, and a key whose policies are gone opens nothing; but its owner may look at it and mend it.
    const api = ownApi(apiID, { caller }, tools)
    const apis = await opened(document, tools)
    if (apis === null || apis.has(api?.id ?? apiID)) return document
    throw api === null ? unknown() : new Refused(400, 'Attempted access to non-owned key.')
  }
}

function unknown(): Refused {
  return new Refused(404, 'Could not retrieve key detail.')
}

function isTrue(text: string | undefined): boolean {
  return text === 'true' || text === '1'
}

async function answered(document: KeyDocument, keyId: string, caller: Caller, tools: ControlTools): Promise<Answer> {
  return new Answer(200, await wrapped(document, keyId, caller, tools), etag(document.rev))
}
