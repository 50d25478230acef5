import Type, { type Static } from 'typebox'

const strict = { additionalProperties: false } as const
const Text = (maxLength = 256) => Type.Optional(Type.String({ maxLength }))
const Time = Type.Optional(
  Type.String({
    maxLength: 64,
    pattern: '^\\d{4}-\\d\\d-\\d\\dT\\d\\d:\\d\\d:\\d\\d(\\.\\d{1,9})?(Z|[+-]\\d\\d:\\d\\d)$'
  })
)

const ADDRESS = '[^\\s@\\x00-\\x1f\\x7f]+@[^\\s@\\x00-\\x1f\\x7f]+'
/** An e-mail address, as far as it matters here: one `@` that parts it, nothing invisible. */
export const Email = Type.String({ maxLength: 320, pattern: `^${ADDRESS}$` })

/** Names of permissions to their levels: `read`, `write`, `admin`, `deny`. */
export const Permissions = Type.Record(Type.String({ maxLength: 128 }), Type.Enum(['read', 'write', 'admin', 'deny']), {
  maxProperties: 200,
  description: 'Levels by name of permission; none: nothing is allowed'
})

const members = {
  access_key: Type.Optional(
    Type.String({
      pattern: '^([\\x21-\\x7e]{16,256})?$',
      secret: true,
      description: 'At least 16 visible characters; blank for callers who may not see it'
    })
  ),
  active: Type.Optional(Type.Boolean()),
  api_model: Type.Optional(Type.Union([Type.Record(Type.String(), Type.Unknown()), Type.Null()])),
  created_at: Time,
  email_address: Type.Optional(Type.String({ maxLength: 320, pattern: `^(${ADDRESS})?$`, description: 'Blank: none' })),
  first_name: Text(),
  last_name: Text(),
  group_id: Text(),
  id: Type.Optional(Type.String({ pattern: '^[\\w-]{0,64}$' })),
  last_login_date: Time,
  org_id: Text(),
  password_max_days: Type.Optional(Type.Integer({ minimum: 0, maximum: 100_000 })),
  password_updated: Time,
  user_permissions: Type.Optional(Permissions)
}

/** Specification, Management user. */
export const User = Type.Object(members, strict)
export type User = Static<typeof User>

/** A password as it may be chosen; bcrypt looks at no more than 72 bytes. */
export const Password = Type.String({ minLength: 6, maxLength: 72, secret: true })

/** What a user of the management interface creates (semantics §2.8). */
export const NewUser = Type.Object(
  {
    ...members,
    first_name: Type.String({ minLength: 1, maxLength: 256 }),
    last_name: Type.String({ minLength: 1, maxLength: 256 }),
    email_address: Email,
    user_permissions: Permissions,
    password: Type.Optional(Password)
  },
  strict
)

/** Users whose permissions are kept in one place (semantics §2.8). */
export const Group = Type.Object(
  {
    _id: Type.Optional(Type.String({ pattern: '^[\\w-]{0,64}$' })),
    name: Text(),
    description: Text(2000),
    active: Type.Optional(Type.Boolean()),
    user_permissions: Type.Optional(Permissions),
    password_max_days: Type.Optional(Type.Integer({ minimum: 0, maximum: 100_000 })),
    org_id: Text(),
    last_updated: Time
  },
  strict
)
export type Group = Static<typeof Group>
