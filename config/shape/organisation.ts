import Type, { type Static } from 'typebox'

/** Whom documents belong to (semantics §2.11). */
export const Organisation = Type.Object(
  {
    id: Type.Optional(Type.String({ pattern: '^[\\w-]{0,64}$' })),
    owner_name: Type.Optional(Type.String({ minLength: 1, maxLength: 256 })),
    owner_slug: Type.Optional(Type.String({ maxLength: 256 })),
    cname: Type.Optional(Type.String({ maxLength: 255, description: 'Host name of its portal' })),
    cname_enabled: Type.Optional(Type.Boolean()),
    created_at: Type.Optional(Type.String({ maxLength: 64 }))
  },
  { additionalProperties: false }
)
export type Organisation = Static<typeof Organisation>
