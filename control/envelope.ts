import Type, { type TSchema } from 'typebox'

/** What the management interface answers to writes (specification, Generic response envelope). */
export function envelope(Meta: TSchema): TSchema {
  return Type.Object(
    { Status: Type.Literal('OK'), Message: Type.String(), Meta, ID: Type.Optional(Type.String()) },
    { additionalProperties: false }
  )
}

export function ok(Message: string, Meta: unknown = null): { Status: 'OK'; Message: string; Meta: unknown } {
  return { Status: 'OK', Message, Meta }
}
