import Type from 'typebox'
import { owns } from '../caller.ts'
import { type Endpoint, endpoint, Refused } from '../endpoint.ts'

/** Forgets fetched key sets (specification, Other management operations; semantics §1.15, §2.9, §8.7). */

const strict = { additionalProperties: false } as const
const ApiId = Type.Object({ apiID: Type.String({ description: 'API id, or database id' }) }, strict)
const nothing = Type.Object({}, strict)
const Invalidated = Type.Object({ status: Type.Literal('ok'), message: Type.String() }, strict)
const invalidated = { status: 'ok', message: 'cache invalidated' }

const flush = endpoint({
  method: 'DELETE',
  path: '/api/cache/jwks/{apiID}',
  door: 'management',
  summary: 'Forgets the key sets that were fetched for an API; administrators of its organisation only',
  params: ApiId,
  query: nothing,
  bodyForm: 'none',
  body: Type.Unknown(),
  malformed: '',
  answer: Type.Object({ message: Type.String(), status: Type.Literal('OK') }, strict),
  async handle({ params, caller }, { apis, keySets }) {
    const api = apis.find(params.apiID)
    if (!caller.admin || (api !== null && !owns(caller, api.orgId)))
      throw new Refused(403, 'Update not allowed, API not owned by user')
    if (api === null) throw new Refused(404, 'API not found')
    await keySets.forget(api.id)
    return { message: 'success', status: 'OK' }
  }
})

const flushOne = endpoint({
  method: 'DELETE',
  path: '/svc/cache/jwks/{apiID}',
  door: 'gateway',
  summary: 'Forgets the key sets that were fetched for an API, known or not',
  params: ApiId,
  query: nothing,
  bodyForm: 'none',
  body: Type.Unknown(),
  malformed: '',
  answer: Invalidated,
  async handle({ params }, { apis, keySets }) {
    await keySets.forget(apis.find(params.apiID)?.id ?? params.apiID)
    return invalidated
  }
})

const flushAll = endpoint({
  method: 'DELETE',
  path: '/svc/cache/jwks',
  door: 'gateway',
  summary: 'Forgets the key sets that were fetched for any API',
  params: nothing,
  query: nothing,
  bodyForm: 'none',
  body: Type.Unknown(),
  malformed: '',
  answer: Invalidated,
  async handle(_call, { keySets }) {
    await keySets.forgetAll()
    return invalidated
  }
})

export const jwks: readonly Endpoint[] = [flush, flushOne, flushAll]
