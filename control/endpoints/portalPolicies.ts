import Type from 'typebox'
import { Policy } from '../../config/shape/policy.ts'
import { isPolicyId } from '../../gateway/keys/check.ts'
import { Answer, type Call, type Endpoint, endpoint, etag, Refused } from '../endpoint.ts'
import { paging } from '../page.ts'
import {
  createPolicy,
  type OwnPolicy,
  ownPolicy,
  removePolicy,
  replacePolicy,
  restorePolicy,
  shownPolicy,
  type Words
} from '../policies.ts'
import { foundPolicies, pageOfPolicies } from '../policyLists.ts'
import { policyFilters } from '../policySearch.ts'
import { revisionEndpoints } from '../revisions.ts'
import type { ControlTools } from '../tools.ts'

/** Policies through the management interface (semantics §1.2–1.4, §2.2). */

const strict = { additionalProperties: false } as const
const PolicyId = { id: Type.String({ description: 'Policy id, or database id' }) }
const Params = Type.Object(PolicyId, strict)
const nothing = Type.Object({}, strict)
const Done = Type.Object({ Message: Type.String(), Meta: Type.Null(), Status: Type.Literal('OK') }, strict)
const PolicyList = Type.Object({ Data: Type.Array(Policy), Pages: Type.Integer({ minimum: 0 }) }, strict)
const malformed = 'Request body malformed.'
const UNKNOWN = 'Could not retrieve portal object.'

const words: Words = {
  malformed: () => malformed,
  unknown: UNKNOWN,
  readOnly: id => `Policy ${id} comes from a file and is read-only`
}
const deletionWords: Words = { ...words, unknown: 'Could not retrieve object for deletion' }

const done = (Message: string) => ({ Message, Meta: null, Status: 'OK' })

const PATH = '/api/portal/policies'

const list = endpoint({
  method: 'GET',
  path: PATH,
  door: 'management',
  summary: 'Lists policies: those of the folder, then those of the store, oldest first',
  params: nothing,
  query: Type.Object({ ...paging, active: policyFilters.active }, strict),
  bodyForm: 'none',
  body: Type.Unknown(),
  malformed,
  answer: PolicyList,
  handle: ({ query, caller }, tools) =>
    query.active ? foundPolicies(caller, query, tools) : pageOfPolicies(caller, query, tools)
})

const search = endpoint({
  method: 'GET',
  path: `${PATH}/search`,
  door: 'management',
  summary: 'Searches policies',
  params: nothing,
  query: Type.Object({ ...paging, ...policyFilters }, strict),
  bodyForm: 'none',
  body: Type.Unknown(),
  malformed,
  answer: PolicyList,
  handle: ({ query, caller }, tools) => foundPolicies(caller, query, tools)
})

const read = endpoint({
  method: 'GET',
  path: `${PATH}/{id}`,
  door: 'management',
  summary: 'Reads a policy',
  params: Params,
  query: nothing,
  bodyForm: 'none',
  body: Type.Unknown(),
  malformed,
  answer: Policy,
  async handle(call, tools) {
    const { policy, document } = await own(call, UNKNOWN, tools)
    return new Answer(200, shownPolicy(policy), document === null ? {} : etag(document.rev))
  }
})

const create = endpoint({
  method: 'POST',
  path: PATH,
  door: 'management',
  summary: 'Creates a policy',
  params: nothing,
  query: nothing,
  bodyForm: 'json',
  body: Policy,
  malformed,
  answer: Done,
  async handle(call, tools) {
    // Nobody could read it: the path is that of the search.
    if (call.body.id === 'search') throw new Refused(400, 'Invalid policy ID.')
    return new Answer(200, done(await createPolicy(call.body, words, call, tools)), etag(1))
  }
})

const update = endpoint({
  method: 'PUT',
  path: `${PATH}/{id}`,
  door: 'management',
  summary: 'Replaces a policy; it counts for the next request of its keys',
  params: Params,
  query: nothing,
  bodyForm: 'json',
  body: Policy,
  malformed,
  answer: Done,
  async handle(call, tools) {
    const { id } = await own(call, UNKNOWN, tools)
    if (call.body.id && call.body.id !== id) throw new Refused(400, 'Invalid policy ID.')
    return updated(await replacePolicy(id, call.body, 'updated', words, call, tools))
  }
})

const remove = endpoint({
  method: 'DELETE',
  path: `${PATH}/{id}`,
  door: 'management',
  summary: 'Deletes a policy; keys that have no other open nothing from the next request on',
  params: Params,
  query: nothing,
  bodyForm: 'none',
  body: Type.Unknown(),
  malformed,
  answer: Done,
  async handle(call, tools) {
    const { id } = await own(call, deletionWords.unknown, tools)
    await removePolicy(id, deletionWords, call, tools)
    return done('Data deleted')
  }
})

export const portalPolicies: readonly Endpoint[] = [
  list,
  search,
  create,
  read,
  update,
  remove,
  ...revisionEndpoints({
    kind: 'policy',
    path: `${PATH}/{id}`,
    noun: 'a policy',
    params: PolicyId,
    document: Policy,
    restored: Done,
    show: state => shownPolicy(state as Policy),
    async find(params, call, tools) {
      const { document } = await own({ ...call, params }, UNKNOWN, tools)
      if (document === null) throw new Refused(404, 'A policy that comes from a file has no revisions')
      return document
    },
    restore: async ({ id }, state, summary, call, tools) =>
      updated(await restorePolicy(id, state, summary, words, call, tools))
  })
]

const updated = (rev: number) => new Answer(200, done('Data updated'), etag(rev))

/** @throws Refused 400 for what can be no id, 404 */
async function own(
  { params, caller }: Pick<Call<{ id: string }, unknown, unknown>, 'params' | 'caller'>,
  unknown: string,
  tools: ControlTools
): Promise<OwnPolicy> {
  if (!isPolicyId(params.id)) throw new Refused(400, 'Invalid policy ID.')
  const found = await ownPolicy(params.id, { caller }, tools)
  if (found === null) throw new Refused(404, unknown)
  return found
}
