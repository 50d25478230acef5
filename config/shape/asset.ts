import Type, { type Static } from 'typebox'

/** The one kind of asset that there is (semantics §1.1). */
export const ASSET_KIND = 'oas-template'

/** Specification, Asset: a named piece of an API description. Members that are read only are taken and not looked at. */
export const Asset = Type.Object(
  {
    _id: Type.Optional(Type.String({ maxLength: 256, description: 'Database id; read only' })),
    id: Type.Optional(
      Type.String({ maxLength: 256, description: 'Custom id, unique in the organisation; none: the database id' })
    ),
    kind: Type.Optional(Type.String({ maxLength: 1024, description: `${ASSET_KIND}, the default` })),
    name: Type.Optional(Type.String({ maxLength: 1024 })),
    description: Type.Optional(Type.String({ maxLength: 65_536 })),
    data: Type.Optional(
      Type.Record(Type.String(), Type.Unknown(), {
        description: 'OpenAPI description with x-svc-api-gateway, kept as given'
      })
    ),
    org_id: Type.Optional(Type.String({ maxLength: 256 })),
    last_updated: Type.Optional(Type.String({ maxLength: 64, description: 'Read only' }))
  },
  { additionalProperties: false }
)
export type Asset = Static<typeof Asset>
