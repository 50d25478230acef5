import Type, { type Static } from 'typebox'

const strict = { additionalProperties: false } as const
const Text = (maxLength = 256) => Type.Optional(Type.String({ maxLength }))

/** Names of permissions to their levels: `read`, `write`, `admin`, `deny`. */
export const Permissions = Type.Record(Type.String({ maxLength: 128 }), Type.Enum(['read', 'write', 'admin', 'deny']), {
  maxProperties: 200,
  description: 'Levels by name of permission; none: nothing is allowed'
})

/** Specification, Management user. */
export const User = Type.Object(
  {
    access_key: Text(),
    active: Type.Optional(Type.Boolean()),
    api_model: Type.Optional(Type.Union([Type.Record(Type.String(), Type.Unknown()), Type.Null()])),
    created_at: Text(64),
    email_address: Text(320),
    first_name: Text(),
    last_name: Text(),
    group_id: Text(),
    id: Text(),
    last_login_date: Text(64),
    org_id: Text(),
    password_max_days: Type.Optional(Type.Integer({ minimum: 0, maximum: 100_000 })),
    password_updated: Text(64),
    user_permissions: Type.Optional(Permissions)
  },
  strict
)
export type User = Static<typeof User>
