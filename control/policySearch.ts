import Type, { type Static } from 'typebox'
import { isObject } from '../config/report.ts'
import { EXTENSION } from '../gateway/api.ts'
import type { Apis } from '../gateway/apis.ts'
import type { PolicyEntry } from './policyIndex.ts'

/** What lists of policies can be narrowed to and sorted by (semantics §2.2). */

export const policyFilters = {
  q: Type.Optional(Type.String({ maxLength: 1024, description: 'Text in name, id or a tag, in any case' })),
  policy_ids: Type.Optional(Type.String({ maxLength: 16_384, description: 'Ids or database ids, by comma' })),
  active: Type.Optional(
    Type.Enum(['', 'true', '1', 'false', '0'], { description: 'true: only the active ones; false: only the others' })
  ),
  state: Type.Optional(Type.Enum(['', 'deny', 'active', 'draft'])),
  sort: Type.Optional(
    Type.String({ pattern: '^(-?(date_created|name|state))?$', description: '- before it: descending' })
  ),
  api_id: Type.Optional(Type.String({ maxLength: 256, description: 'Policies with rights to this API' })),
  auth_type: Type.Optional(
    Type.String({
      maxLength: 64,
      description:
        'Policies with rights to an API of this authentication: authToken, basic, jwt, oauth, hmac, mtls, keyless'
    })
  )
}
const Filters = Type.Object(policyFilters)
export type PolicyFilters = Static<typeof Filters>

/** Whether a policy is one of those looked for; `policy_ids` apart. */
export function policyFilter(filters: PolicyFilters, apis: Pick<Apis, 'get'>): (policy: PolicyEntry) => boolean {
  const { state: wanted, api_id, auth_type } = filters
  const sought = (filters.q ?? '').toLowerCase()
  const active = filters.active ? filters.active === 'true' || filters.active === '1' : null
  const types = new Map<string, ReadonlySet<string>>()
  const typesOf = (id: string): ReadonlySet<string> => {
    const known = types.get(id) ?? authTypes(apis.get(id)?.document)
    types.set(id, known)
    return known
  }
  return ({ state, text, apis }) => {
    if (active !== null && (state === 'active') !== active) return false
    if (wanted && state !== wanted) return false
    if (api_id && !apis.includes(api_id)) return false
    if (auth_type && !apis.some(id => typesOf(id).has(auth_type))) return false
    return text.includes(sought)
  }
}

type Order = (a: PolicyEntry, b: PolicyEntry) => number

/** Null: the order of creation. */
export function policyOrder(sort: string | undefined): Order | null {
  const member = sort?.replace('-', '')
  if (member !== 'state' && member !== 'name' && member !== 'date_created') return null
  const sign = sort!.startsWith('-') ? -1 : 1
  return (a, b) => (a[member] < b[member] ? -sign : a[member] > b[member] ? sign : 0)
}

/** Ways of authentication that an API's document names and switches on. */
function authTypes(document: Readonly<Record<string, unknown>> | undefined): ReadonlySet<string> {
  const extension = member(document, EXTENSION)
  const authentication = member(member(extension, 'server'), 'authentication')
  if (document === undefined) return new Set()
  if (authentication.enabled !== true) return new Set(['keyless'])
  const types = new Set<string>()
  const described = member(member(document, 'components'), 'securitySchemes')
  for (const [name, scheme] of Object.entries(member(authentication, 'securitySchemes'))) {
    if (!isObject(scheme) || scheme.enabled === false) continue
    const { type, scheme: http } = member(described, name)
    if (type === 'apiKey') types.add('authToken')
    else if (type === 'oauth2') types.add('oauth')
    else if (type === 'http') types.add(String(http).toLowerCase() === 'basic' ? 'basic' : 'jwt')
    else if (type === 'mutualTLS') types.add('mtls')
  }
  if (member(authentication, 'hmac').enabled === true) types.add('hmac')
  return types
}

function member(of: unknown, name: string): Record<string, unknown> {
  const value = isObject(of) && Object.hasOwn(of, name) ? of[name] : null
  return isObject(value) ? value : {}
}
