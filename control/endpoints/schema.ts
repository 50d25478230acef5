import Type from 'typebox'
import { type Endpoint, endpoint } from '../endpoint.ts'
import { levels, rules } from '../permissions.ts'

const strict = { additionalProperties: false } as const
const nothing = Type.Object({}, strict)

/** The permission table as data (semantics §2.8). */
export const readPermissions = endpoint({
  method: 'GET',
  path: '/api/schema/permissions',
  door: 'management',
  anyUser: true,
  summary: 'Which path needs which permission, and what the levels of a permission allow',
  params: nothing,
  query: nothing,
  bodyForm: 'none',
  body: Type.Unknown(),
  malformed: '',
  answer: Type.Object(
    {
      permissions: Type.Array(
        Type.Object(
          {
            permission: Type.String(),
            rx: Type.String({ description: 'Regular expression of paths; of all rules the first that matches counts' })
          },
          strict
        )
      ),
      levels: Type.Record(Type.String(), Type.Array(Type.Enum(['read', 'write', 'delete']))),
      intents: Type.Record(Type.String(), Type.Array(Type.String()), {
        description: 'What calls want, by method; a search reads, whatever its method'
      }),
      special: Type.Record(Type.String(), Type.String(), { description: 'Permissions that belong to no path' })
    },
    strict
  ),
  handle: () => ({
    permissions: rules.map(({ permission, rx }) => ({ permission, rx: rx.source })),
    levels,
    intents: { read: ['GET', 'HEAD'], write: ['POST', 'PUT', 'PATCH'], delete: ['DELETE'] },
    special: {
      IsAdmin: 'At level admin: everything that is not denied by name',
      ResetPassword: 'At level write or admin: passwords of other users'
    }
  })
})

export const schema: readonly Endpoint[] = [readPermissions]
