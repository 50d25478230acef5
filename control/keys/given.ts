import { lifetimeSeconds } from '../../config/duration.ts'
import type { Key, KeyGiven } from '../../config/shape/key.ts'
import type { AccessRight } from '../../config/shape/limit.ts'
import { Invalid } from '../../config/validate.ts'
import { ruleFaults } from '../../gateway/keys/check.ts'
import { Refused, toldFaults } from '../endpoint.ts'
import type { ControlTools } from '../tools.ts'
import { basicAuth, type HashPassword } from './password.ts'
import type { KeyDocument } from './reading.ts'

/** From what somebody sent to the key that is stored. */

/** How an interface words what it refuses. */
export interface KeyTexts {
  /** Members that do not go together. */
  readonly invalid: (cause: Invalid) => string
  /** No access rights, where master keys are off. */
  readonly rightless: string
}

export interface Making {
  readonly org: string
  /** What the key is stored under; null: a generated token. */
  readonly name: string | null
  readonly texts: KeyTexts
  readonly hash: HashPassword
}

/** A key as it is to be stored, from the body of a creation. @throws Refused */
export async function toCreate(body: KeyGiven, { org, name, texts, hash }: Making, tools: ControlTools): Promise<Key> {
  const now = seconds(tools)
  const key = written(body, now)
  if (key.hmac_enabled && !key.hmac_string) key.hmac_string = newSecret(tools)
  const { applied, expiresIn } = await checked(key, org, 'create', texts, tools)
  if (applied.hmac_enabled && !key.hmac_string) key.hmac_string = newSecret(tools)
  if (expiresIn > 0) key.expires = Math.min(now + expiresIn, Number.MAX_SAFE_INTEGER)
  key.org_id = org
  key.date_created = new Date(tools.clock.now()).toISOString()
  key.last_updated = String(now)
  startQuotas(key, applied, now)
  return oneProof(withPassword(key, await basicAuth(body.basic_auth_data, undefined, name, hash)))
}

/** A key as it is to be stored, from the body of a replacement. @throws Refused */
export async function toReplace(
  body: KeyGiven,
  { org, body: record }: KeyDocument,
  counts: 'resets' | 'keeps',
  { texts, hash }: Pick<Making, 'texts' | 'hash'>,
  tools: ControlTools
): Promise<Key> {
  const before = record.key
  const now = seconds(tools)
  if (body.org_id && body.org_id !== org)
    throw refusedBy(texts, new Invalid([{ path: '/org_id', message: 'a key stays in its organisation' }]))
  const key = written(body, now)
  if ((key.expires ?? 0) > 1 && key.expires! < now) {
    if (before.expires === undefined) delete key.expires
    else key.expires = before.expires
  }
  if (key.hmac_enabled && !key.hmac_string) key.hmac_string = before.hmac_string || newSecret(tools)
  keepsCertificate(key, record)
  const { applied } = await checked(key, org, 'update', texts, tools)
  key.org_id = org
  if (before.date_created !== undefined) key.date_created = before.date_created
  key.last_updated = String(now)
  if (counts === 'resets') startQuotas(key, applied, now)
  else keepQuotas(key, before)
  const name = record.generated ? null : record.name
  return oneProof(withPassword(key, await basicAuth(body.basic_auth_data, before.basic_auth_data, name, hash)))
}

/** A key with other policies, as it is to be stored. @throws Refused */
export async function withPolicies(
  apply_policies: string[],
  { org, body: { key } }: KeyDocument,
  texts: KeyTexts,
  tools: ControlTools
): Promise<Key> {
  const next = { ...key, apply_policies, last_updated: String(seconds(tools)) }
  await checked(next, org, 'update', texts, tools)
  return next
}

/** The members that a writer decides on, under their present names; a password is not among them. */
function written(body: KeyGiven, now: number): Key {
  const {
    apply_policy_id,
    basic_auth_data: _password,
    enable_detail_recording,
    expires,
    key_id: _id,
    quota_remaining: _remaining,
    quota_renews: _renews,
    ...rest
  } = body
  const key: Key = rest
  if (typeof expires === 'string') key.expires = Math.min(now + lifetimeSeconds(expires)!, Number.MAX_SAFE_INTEGER)
  else if (expires !== undefined) key.expires = expires
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

function withPassword(key: Key, basic_auth_data: Key['basic_auth_data']): Key {
  return basic_auth_data === undefined ? key : { ...key, basic_auth_data }
}

/** The key with its policies, if it may be saved so. @throws Refused */
async function checked(
  key: Key,
  org: string,
  action: 'create' | 'update',
  texts: KeyTexts,
  tools: ControlTools
): Promise<{ applied: Key; expiresIn: number }> {
  const { settings, policies } = tools
  await certificatesExist(key, org, tools)
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
      throw new Refused(400, texts.rightless)
    const named = await policies.of(key, org)
    const draft = action === 'create' ? named.find(({ policy }) => policy?.active === false) : undefined
    if (draft !== undefined) throw new Refused(400, `Failed to create key - policy ${draft.id} is not active`)
    // Of several policies with a lifetime the last counts.
    const expiresIn = named.reduce((last, { policy }) => policy?.key_expires_in || last, 0)
    return { applied: result.key, expiresIn }
  } catch (cause) {
    if (!(cause instanceof Invalid)) throw cause
    throw refusedBy(texts, cause)
  }
}

function refusedBy(texts: KeyTexts, cause: Invalid): Refused {
  return new Refused(400, texts.invalid(cause).slice(0, 2000), { more: { faults: toldFaults(cause.faults) } })
}

/** The certificates that a key names are its organisation's. @throws Refused */
export async function certificatesExist(
  { certificate, mtls_static_certificate_bindings }: Pick<Key, 'certificate' | 'mtls_static_certificate_bindings'>,
  org: string,
  { store }: ControlTools
): Promise<void> {
  const exists = async (id: string) => (await store.get('certificate', id))?.org === org
  if (certificate && (isStrange(certificate) || !(await exists(certificate))))
    throw new Refused(400, 'Key must be used with an existent certificate')
  for (const id of new Set(mtls_static_certificate_bindings ?? [])) {
    if (isStrange(id)) throw new Refused(400, `invalid certificate ID: ${id}`)
    if (!(await exists(id))) throw new Refused(400, `certificate not found: ${id}`)
  }
}

/** What a key asks for beside its name is one thing. @throws Refused */
function oneProof(key: Key): Key {
  if (key.certificate && key.basic_auth_data?.password)
    throw new Refused(400, 'A key has either a certificate or a password')
  return key
}

/** @throws Refused where a key would lose what proves who has it (semantics §2.4) */
function keepsCertificate({ certificate }: Key, { name, key: before }: KeyDocument['body']): void {
  if (!before.certificate || certificate === before.certificate) return
  if (!certificate) throw new Refused(400, 'Key cannot be used without a certificate')
  if (before.certificate === name) throw new Refused(400, 'A key that was made from a certificate stays with it')
}

/** No id of ours, and nothing to look up. */
function isStrange(id: string): boolean {
  return id === '' || id.length > 1024 || /[\0-\x1f\x7f]/.test(id) || !id.isWellFormed()
}

function newSecret({ random }: ControlTools): string {
  return random.bytes(32).toString('base64')
}

function seconds({ clock }: ControlTools): number {
  return Math.floor(clock.now() / 1000)
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
