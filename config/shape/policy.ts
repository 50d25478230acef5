import Type, { type Static } from 'typebox'
import { HookReference } from './hook.ts'
import { AccessRights, Lifetime, limitMembers, rateLimitModes, rateLimitModeText } from './limit.ts'

export const Partitions = Type.Object(
  {
    acl: Type.Optional(Type.Boolean()),
    complexity: Type.Optional(Type.Boolean()),
    per_api: Type.Optional(Type.Boolean()),
    quota: Type.Optional(Type.Boolean()),
    rate_limit: Type.Optional(Type.Boolean())
  },
  { additionalProperties: false }
)

/** Specification, Policy: a reusable bundle of access rights and limits. */
export const Policy = Type.Object(
  {
    _id: Type.Optional(Type.String({ maxLength: 256 })),
    id: Type.Optional(Type.String({ maxLength: 256 })),
    access_rights: Type.Optional(AccessRights),
    active: Type.Optional(Type.Boolean()),
    date_created: Type.Optional(Type.String()),
    hook_references: Type.Optional(Type.Union([Type.Array(HookReference, { maxItems: 100 }), Type.Null()])),
    hmac_enabled: Type.Optional(Type.Boolean()),
    enable_http_signature_validation: Type.Optional(Type.Boolean()),
    is_inactive: Type.Optional(Type.Boolean()),
    key_expires_in: Type.Optional(Lifetime('How long a new key lives')),
    last_updated: Type.Optional(Type.String()),
    ...limitMembers,
    meta_data: Type.Optional(Type.Union([Type.Record(Type.String(), Type.Unknown()), Type.Null()])),
    name: Type.Optional(Type.String({ maxLength: 1024 })),
    org_id: Type.Optional(Type.String({ maxLength: 256 })),
    partitions: Type.Optional(Partitions),
    post_expiry_action: Type.Optional(Type.Enum(['', 'delete', 'retain'])),
    post_expiry_grace_period: Type.Optional(Lifetime('How long an expired key is kept')),
    rate_limit_mode: Type.Optional(Type.Enum(rateLimitModes, { description: rateLimitModeText })),
    tags: Type.Optional(Type.Union([Type.Array(Type.String({ maxLength: 1024 }), { maxItems: 1000 }), Type.Null()]))
  },
  { additionalProperties: false }
)
export type Policy = Static<typeof Policy>

/** What the absence of a member means. */
export const absentInPolicy = {
  access_rights: {},
  active: true,
  hmac_enabled: false,
  is_inactive: false,
  key_expires_in: 0,
  max_query_depth: 0,
  meta_data: {},
  name: '',
  partitions: { acl: false, complexity: false, per_api: false, quota: false, rate_limit: false },
  per: 0,
  quota_max: 0,
  quota_renewal_rate: 0,
  rate: 0,
  tags: [],
  throttle_interval: 0,
  throttle_retry_limit: 0
} satisfies Policy
