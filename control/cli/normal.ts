import { isDeepStrictEqual } from 'node:util'
import { lifetimeSeconds } from '../../config/duration.ts'
import { parseExact } from '../../config/exactJson.ts'
import { isObject } from '../../config/report.ts'
import { absentInPolicy } from '../../config/shape/policy.ts'
import { EXTENSION } from '../../gateway/api.ts'
import type { DocumentKind, Json } from './documents.ts'

/** Documents in the form in which they are compared: without what the gateway computes, and with what stands for nothing left out. */

const COMPUTED: Record<Exclude<DocumentKind, 'api'>, readonly string[]> = {
  asset: ['_id', 'org_id', 'last_updated'],
  policy: ['_id', 'org_id', 'date_created', 'last_updated'],
  key: [
    'id',
    'org_id',
    'date_created',
    'last_updated',
    'quota_remaining',
    'quota_renews',
    'key_id',
    'last_check',
    'allowance',
    'data_expires'
  ]
}
const DEFAULTS: Record<Exclude<DocumentKind, 'api'>, Record<string, Json>> = {
  asset: { kind: 'oas-template', description: '', name: '' },
  policy: absentInPolicy,
  key: {
    rate: 0,
    per: 0,
    quota_max: 0,
    quota_renewal_rate: 0,
    is_inactive: false,
    access_rights: {},
    alias: '',
    apply_policies: []
  }
}
/** Old names, and the present ones. */
const RENAMED: Record<string, string> = { enable_detail_recording: 'enable_detailed_recording' }
/** Members that may be written as a lifetime. */
const LIFETIMES = ['key_expires_in', 'post_expiry_grace_period', 'session_lifetime']
/** Secrets of keys: never in files; who leaves them out keeps them. */
const SECRETS = ['hmac_string', 'jwt_data', 'basic_auth_data']

export function normal(kind: DocumentKind, body: Json): Record<string, Json> {
  if (kind === 'api') return normalApi(body)
  const out: Record<string, Json> = {}
  for (const [given, value] of Object.entries(present(kind, body))) {
    const name = RENAMED[given] ?? given
    if (COMPUTED[kind].includes(name) || value === null || value === undefined) continue
    if (kind === 'key' && SECRETS.includes(name)) continue
    if (Object.hasOwn(DEFAULTS[kind], name) && isDeepStrictEqual(plain(value), DEFAULTS[kind][name])) continue
    out[name] = name === 'access_rights' ? rights(value) : LIFETIMES.includes(name) ? seconds(value) : value
  }
  return plain(out)
}

/** A key may name one policy in the old way. */
function present(kind: DocumentKind, body: Json): Json {
  if (kind !== 'key' || body.apply_policy_id === undefined) return body
  const { apply_policy_id, ...rest } = body
  return { apply_policies: apply_policy_id === '' ? [] : [apply_policy_id], ...rest }
}

function seconds(value: Json): Json {
  return typeof value === 'string' ? (lifetimeSeconds(value) ?? value) : value
}

/** What a write needs beside the file: what only the gateway knows. */
export function withKept(kind: DocumentKind, body: Json, present: Json | null): Json {
  if (kind !== 'key') return body
  const { id: _id, ...key } = body
  const kept = SECRETS.filter(name => present?.[name] !== undefined && key[name] === undefined)
  return {
    ...key,
    ...Object.fromEntries(kept.filter(name => name !== 'basic_auth_data').map(name => [name, present[name]]))
  }
}

function normalApi(document: Json): Record<string, Json> {
  const extension = document[EXTENSION]
  if (!isObject(extension) || !isObject(extension.info)) return plain(document)
  const { dbId: _db, orgId: _org, ...info } = extension.info
  return plain({ ...document, [EXTENSION]: { ...extension, info } })
}

/** Quotas as they stand are no part of a right. */
function rights(given: Json): Json {
  if (!isObject(given)) return given
  return Object.fromEntries(
    Object.entries(given).map(([id, right]) => {
      if (!isObject(right) || !isObject(right.limit)) return [id, right]
      const { quota_remaining: _remaining, quota_renews: _renews, ...limit } = right.limit
      return [id, { ...right, limit }]
    })
  )
}

/** As JSON tells it: no prototypes, no members without a value; integers of any size stay. */
function plain(value: Json): Json {
  return parseExact(JSON.stringify(value))
}
