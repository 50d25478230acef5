import type { Key, KeyGiven } from '../../config/shape/key.ts'
import type { KeyRecord, Session } from '../../gateway/keys/keys.ts'
import { customId, idFault, newToken, tokenId } from '../../gateway/keys/token.ts'
import { Conflict } from '../../gateway/store/store.ts'
import { type Call, Refused } from '../endpoint.ts'
import type { ControlTools } from '../tools.ts'
import { certificatesExist, type KeyTexts, toCreate, toReplace, withPolicies } from './given.ts'
import { hashOnce } from './password.ts'
import { type KeyDocument, present, session } from './reading.ts'

/** Storing keys, with what goes along: counters that begin anew, and who must hear of it. */

/** What a change needs of its call. */
type Asked = Pick<Call<unknown, unknown, unknown>, 'matched' | 'changed'>

/** Finds the key of a call anew for each try. @throws Refused when there is none, or it is not the caller's */
export type Find = () => Promise<KeyDocument>

/** Tries of a change that others get ahead of; each time somebody's change succeeds. */
const MOST_TRIES = 100

/**
 * The token is told here for the only time. A key that is made from a certificate has none: its id is the certificate's
 * (semantics §4.1). @throws Refused; 409 when there is a key of this certificate
 */
export async function createGenerated(
  body: KeyGiven,
  org: string,
  texts: KeyTexts,
  tools: ControlTools
): Promise<{ token: string; document: KeyDocument }> {
  if (body.certificate) {
    await certificatesExist(body, org, tools)
    return { token: body.certificate, document: await createNamed(body.certificate, body, org, texts, tools) }
  }
  const token = newToken(tools.random)
  const key = await toCreate(body, { org, name: null, texts, hash: hashOnce() }, tools)
  const name = tools.settings.gateway.hash_keys ? null : token
  const document = await put(tokenId(token), org, { name, generated: true, key }, 0, tools)
  await restart([await session(document.id, org, key, tools)], tools)
  tools.events.emit('TokenCreated', 'Key generated.', { key: document.id })
  return { token, document }
}

/** Words that stand where ids do, in the paths of keys of both interfaces: nobody could find such a key again. */
const WORDS: ReadonlySet<string> = new Set(['create', 'detailed', 'policy', 'preview', 'search'])

/** @throws Refused; 409 when the name is taken */
export async function createNamed(
  name: string,
  body: KeyGiven,
  org: string,
  texts: KeyTexts,
  tools: ControlTools
): Promise<KeyDocument> {
  const fault = idFault(name, tools.settings.gateway.min_token_length)
  if (fault !== null) throw new Refused(400, fault)
  if (WORDS.has(name)) throw new Refused(400, `Key id must not be '${name}': it is a word of the paths of keys`)
  const hash = customId(org, name)
  const taken = new Refused(409, 'A key of this id exists already')
  const before = await tools.store.get<KeyRecord>('key', hash)
  if ((await present(before, tools)) !== null) throw taken
  const key = await toCreate(body, { org, name, texts, hash: hashOnce() }, tools)
  try {
    const document = await put(hash, org, { name, generated: false, key }, before?.rev ?? 0, tools)
    await restart([await session(hash, org, key, tools)], tools)
    tools.events.emit('TokenCreated', 'Key modified.', { key: hash })
    return document
  } catch (cause) {
    if (cause instanceof Conflict) throw taken
    throw cause
  }
}

/** Also of a key that nobody stores. @throws Refused */
export async function preview(body: KeyGiven, org: string, texts: KeyTexts, tools: ControlTools): Promise<KeyDocument> {
  const { basic_auth_data: _password, ...given } = body
  const key = await toCreate(given, { org, name: null, texts, hash: hashOnce() }, tools)
  return { kind: 'key', id: '', org, rev: 0, sequence: 0, body: { name: null, generated: true, key } }
}

/** @throws Refused */
export async function replaceKey(
  find: Find,
  body: KeyGiven,
  counts: 'resets' | 'keeps',
  texts: KeyTexts,
  call: Asked,
  tools: ControlTools
): Promise<KeyDocument> {
  const hash = hashOnce()
  const { before, after } = await change(find, call, tools, document =>
    toReplace(body, document, counts, { texts, hash }, tools)
  )
  if (counts === 'resets') {
    const { id, org } = before
    const sessions = [before, after!].map(({ body: { key } }) => session(id, org, key, tools))
    await restart(await Promise.all(sessions), tools)
  }
  tools.events.emit('TokenUpdated', 'Key modified.', { key: before.id })
  return after!
}

/** What was counted stays. @throws Refused */
export async function applyToKey(
  find: Find,
  apply_policies: string[],
  texts: KeyTexts,
  call: Asked,
  tools: ControlTools
): Promise<void> {
  const { before } = await change(find, call, tools, document => withPolicies(apply_policies, document, texts, tools))
  tools.events.emit('TokenUpdated', 'Key modified.', { key: before.id })
}

/** It opens nothing from the next request on. @throws Refused */
export async function deleteKey(find: Find, call: Asked, tools: ControlTools): Promise<void> {
  const { before } = await change(find, call, tools, async () => null)
  const gone = await session(before.id, before.org, before.body.key, tools)
  if (gone !== null) await tools.counters.forget(gone.counterIds())
  tools.events.emit('TokenDeleted', 'Key deleted.', { key: before.id })
}

/** Changes a key from what it is now, whoever else changes it; null deletes it. @throws Refused */
async function change(
  find: Find,
  { matched, changed }: Asked,
  tools: ControlTools,
  make: (document: KeyDocument) => Promise<Key | null>
): Promise<{ before: KeyDocument; after: KeyDocument | null }> {
  for (let tries = 0; tries < MOST_TRIES; tries++) {
    const before = await find()
    const { id, org, body } = before
    const rev = matched(before.rev)
    const key = await make(before)
    if (key !== null) changed(body.key, key)
    try {
      if (key !== null) return { before, after: await put(id, org, { ...body, key }, rev, tools) }
      await remove(id, rev, tools)
      return { before, after: null }
    } catch (cause) {
      if (!(cause instanceof Conflict)) throw cause
    }
  }
  throw new Refused(409, 'The key is being changed by others')
}

/** Answers once the next request counts by it. @throws Conflict when the key has another revision than `expect` */
async function put(
  id: string,
  org: string,
  body: KeyRecord,
  expect: number,
  { store, changes }: ControlTools
): Promise<KeyDocument> {
  const sequence = await store.commit([{ kind: 'key', id, org, body, expect }])
  await changes.publish([{ sequence, kind: 'key', id, deleted: false }])
  return { kind: 'key', id, org, rev: expect + 1, sequence, body }
}

/** @throws Conflict */
async function remove(id: string, expect: number, { store, changes }: ControlTools): Promise<void> {
  const sequence = await store.commit([{ kind: 'key', id, body: null, expect }])
  await changes.publish([{ sequence, kind: 'key', id, deleted: true }])
}

/** Counting begins anew, but on APIs that skip it. */
async function restart(sessions: readonly (Session | null)[], { counters, apis }: ControlTools): Promise<void> {
  const ids = sessions.flatMap(each => each?.counterIds(apiId => apis.get(apiId)?.skipQuotaReset !== true) ?? [])
  await counters.forget([...new Set(ids)])
}
