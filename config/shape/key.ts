import Type, { type Static } from 'typebox'
import {
  AccessRights,
  Int64,
  Lifetime,
  limitMembers,
  rateLimitModes,
  rateLimitModeText,
  TimeOrLifetime
} from './limit.ts'

/** Specification, Key (session) object, with the members of semantics §4.3. Times are Unix seconds. */
export const Key = Type.Object(
  {
    access_rights: Type.Optional(AccessRights),
    alias: Type.Optional(Type.String({ maxLength: 1024 })),
    allowance: Type.Optional(Type.Number()),
    apply_policies: Type.Optional(
      Type.Union([Type.Array(Type.String({ maxLength: 256 }), { maxItems: 1000 }), Type.Null()])
    ),
    apply_policy_id: Type.Optional(Type.String({ maxLength: 256, description: 'Deprecated: apply_policies' })),
    basic_auth_data: Type.Optional(
      Type.Union([
        Type.Object(
          {
            hash_type: Type.Optional(Type.String()),
            password: Type.Optional(Type.String()),
            user: Type.Optional(Type.String())
          },
          { additionalProperties: false }
        ),
        Type.Null()
      ])
    ),
    certificate: Type.Optional(Type.String()),
    data_expires: Type.Optional(Int64('')),
    date_created: Type.Optional(Type.String()),
    enable_detail_recording: Type.Optional(Type.Boolean({ description: 'Deprecated: enable_detailed_recording' })),
    enable_detailed_recording: Type.Optional(Type.Boolean()),
    enable_http_signature_validation: Type.Optional(Type.Boolean()),
    expires: Type.Optional(Int64('Unix seconds; 0 or less: never')),
    hmac_enabled: Type.Optional(Type.Boolean()),
    hmac_string: Type.Optional(Type.String()),
    id_extractor_deadline: Type.Optional(Int64('')),
    is_inactive: Type.Optional(Type.Boolean()),
    jwt_data: Type.Optional(
      Type.Union([Type.Object({ secret: Type.Optional(Type.String()) }, { additionalProperties: false }), Type.Null()])
    ),
    key_id: Type.Optional(Type.String()),
    last_check: Type.Optional(Int64('')),
    last_updated: Type.Optional(Type.String({ description: 'Unix seconds as a string' })),
    ...limitMembers,
    meta_data: Type.Optional(Type.Unknown()),
    monitor: Type.Optional(
      Type.Union([
        Type.Object(
          { trigger_limits: Type.Optional(Type.Union([Type.Array(Type.Number(), { maxItems: 1000 }), Type.Null()])) },
          { additionalProperties: false }
        ),
        Type.Null()
      ])
    ),
    mtls_static_certificate_bindings: Type.Optional(
      Type.Union([Type.Array(Type.String({ maxLength: 1024 }), { maxItems: 1000 }), Type.Null()])
    ),
    oauth_client_id: Type.Optional(Type.String()),
    oauth_keys: Type.Optional(Type.Union([Type.Record(Type.String(), Type.String()), Type.Null()])),
    org_id: Type.Optional(Type.String({ maxLength: 256 })),
    post_expiry_action: Type.Optional(Type.Enum(['', 'delete', 'retain'])),
    post_expiry_grace_period: Type.Optional(Lifetime('How long a retained key outlives its expiry; below 0: for ever')),
    rate_limit_mode: Type.Optional(Type.Enum(rateLimitModes, { description: rateLimitModeText })),
    rsa_certificate_id: Type.Optional(Type.String()),
    session_lifetime: Type.Optional(Lifetime('How long it is kept after it was written')),
    tags: Type.Optional(Type.Union([Type.Array(Type.String({ maxLength: 1024 }), { maxItems: 1000 }), Type.Null()]))
  },
  { additionalProperties: false }
)
export type Key = Static<typeof Key>

/** A key as it is sent: as `Key`, but that it may say how long it lives. */
export const KeyGiven = Type.Object(
  { ...Key.properties, expires: Type.Optional(TimeOrLifetime('Unix seconds; 0 or less: never')) },
  { additionalProperties: false }
)
export type KeyGiven = Static<typeof KeyGiven>
