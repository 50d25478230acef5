import Type, { type Static } from 'typebox'
import { Key } from '../../config/shape/key.ts'
import type { KeyRecord, Session } from '../../gateway/keys/keys.ts'
import { goneAt } from '../../gateway/keys/lifetime.ts'
import { readBack } from '../../gateway/keys/readBack.ts'
import { customId, idFault, tokenId } from '../../gateway/keys/token.ts'
import type { Document } from '../../gateway/store/store.ts'
import type { Caller } from '../caller.ts'
import { Refused } from '../endpoint.ts'
import { denial } from '../permissions.ts'
import type { ControlTools } from '../tools.ts'

/** Finding keys and showing them. */

export type KeyDocument = Document<KeyRecord>

/** Specification, management-API key wrapper. */
export const KeyData = Type.Object({
  api_model: Type.Object({}),
  data: Key,
  key_hash: Type.String({ description: 'Where it is stored; empty without gateway.hash_keys' }),
  key_id: Type.String({ description: 'Token or custom id; empty for a token that nobody named' })
})
export type KeyData = Static<typeof KeyData>

/** How a key is looked for. */
export interface Sought {
  readonly id: string
  /** `guess`: as an id, then as a hash. */
  readonly by: 'id' | 'hash' | 'username' | 'guess'
  /** Organisations in which it may be a custom id. */
  readonly orgs: readonly string[]
}

/** Null: there is none, or it is gone. A token's or a hash's key may be of any organisation. @throws Refused */
export async function locate(sought: Sought, tools: ControlTools): Promise<KeyDocument | null> {
  return present(await lookUp(sought, tools), tools)
}

async function lookUp({ id, by, orgs }: Sought, { settings, store }: ControlTools): Promise<KeyDocument | null> {
  const { hash_keys } = settings.gateway
  if (by === 'hash' && !hash_keys) throw new Refused(400, 'Key requested by hash but key hashing is not enabled')
  if (by !== 'hash' && idFault(id, 1) === null) {
    for (const org of new Set(orgs)) {
      const document = await store.get<KeyRecord>('key', customId(org, id))
      if (document !== null) return document
    }
    const document = by === 'username' ? null : await store.get<KeyRecord>('key', tokenId(id))
    if (document !== null) return document
  }
  const isHash = (by === 'hash' || (by === 'guess' && hash_keys)) && /^[0-9a-f]{64}$/.test(id)
  return isHash ? store.get<KeyRecord>('key', id) : null
}

/** Null: it is gone (semantics §4.5). */
export async function present(
  document: KeyDocument | null,
  { keys, clock }: ControlTools
): Promise<KeyDocument | null> {
  if (document === null) return null
  const { key } = document.body
  const applied = await keys.applied(document.org, key)
  return clock.now() < goneAt('key' in applied ? applied.key : key, key.last_updated) ? document : null
}

/** Null: its policies cannot be applied. */
export async function session(hash: string, org: string, key: Key, { keys }: ControlTools): Promise<Session | null> {
  const applied = await keys.applied(org, key)
  return 'key' in applied ? keys.session(hash, org, applied.key) : null
}

/** The APIs that a key opens, its policies applied; null: they cannot be. */
export async function opened(
  { org, body }: KeyDocument,
  { keys, settings }: ControlTools
): Promise<{ has(apiId: string): boolean } | null> {
  const applied = await keys.applied(org, body.key)
  if (!('key' in applied)) return null
  const rights = Object.keys(applied.key.access_rights ?? {})
  return settings.gateway.allow_master_keys && rights.length === 0 ? { has: () => true } : new Set(rights)
}

/** A key as this caller may see it. */
export async function shown(
  { id, org, body }: Pick<KeyDocument, 'id' | 'org' | 'body'>,
  caller: Caller,
  tools: ControlTools
): Promise<Key> {
  // A key whose policies are gone opens nothing, but its owner may look at it and mend it.
  const made = (await session(id, org, body.key, tools)) ?? tools.keys.session(id, org, body.key)
  const read = withoutSecrets(await readBack(made, tools.counters), caller)
  // Of a caller with a token, policies do not decide alone (`Identities`): written back as it is read, it stays off.
  return body.isIdentity === true && body.key.is_inactive === true ? { ...read, is_inactive: true } : read
}

/** A key as it was written: without its policies, and without what was counted. */
function asWritten({ org, body }: Pick<KeyDocument, 'org' | 'body'>, caller: Caller): Key {
  const key: Key = { ...body.key, org_id: org }
  if (key.basic_auth_data) {
    const { password: _password, ...kept } = key.basic_auth_data
    key.basic_auth_data = kept
  }
  return withoutSecrets(key, caller)
}

/** Shared secrets are for those who could replace them (`outside.md` §5). */
function withoutSecrets(key: Key, { user }: Caller): Key {
  if (user === null || denial(user.permissions, '/api/keys', 'write') === null) return key
  const kept = { ...key }
  if (kept.hmac_string) kept.hmac_string = ''
  if (kept.jwt_data?.secret) kept.jwt_data = { ...kept.jwt_data, secret: '' }
  return kept
}

/** How a key is shown: with its policies applied, or as it was written. */
export type Shown = 'applied' | 'written'

/** Query member of readers. */
export const written = Type.Optional(
  Type.String({
    maxLength: 16,
    description: '`true`: the key as it was written, without its policies and what was counted'
  })
)

export function shownAs(query: { readonly written?: string }): Shown {
  return query.written === 'true' || query.written === '1' ? 'written' : 'applied'
}

/** @param keyId as it stands in the wrapper */
export async function wrapped(
  document: Pick<KeyDocument, 'id' | 'org' | 'body'>,
  keyId: string,
  caller: Caller,
  tools: ControlTools,
  as: Shown = 'applied'
): Promise<KeyData> {
  const key_hash = tools.settings.gateway.hash_keys ? document.id : ''
  const data = as === 'written' ? asWritten(document, caller) : await shown(document, caller, tools)
  return { api_model: {}, data, key_hash, key_id: keyId }
}

/** The id of a key that was asked for: nobody learns a token from its hash. */
export function keyIdOf({ id, body }: KeyDocument, asked: string): string {
  if (!body.generated) return body.name ?? asked
  return id === asked ? '' : asked
}
