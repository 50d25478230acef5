import Type from 'typebox'
import { Policy } from '../../config/shape/policy.ts'
import { isPolicyId, policyIdText } from '../../gateway/keys/check.ts'
import { endpoint, Refused } from '../endpoint.ts'
import { createPolicy, removePolicy, replacePolicy, type Words } from '../policies.ts'

/** Policies through the gateway interface (semantics §2.2). */

const PolicyResponse = Type.Object({
  key: Type.String(),
  status: Type.Literal('ok'),
  action: Type.Enum(['added', 'modified', 'deleted'])
})
const strict = { additionalProperties: false } as const
const PolicyId = Type.Object({ id: Type.String() }, strict)
const nothing = Type.Object({}, strict)

const words: Words = {
  malformed: ({ message }) => `Request malformed: ${message}`,
  unknown: 'Policy not found',
  readOnly: (id, file) => `Policy ${id} comes from ${file} and is read-only`
}

export const policies = [
  endpoint({
    method: 'GET',
    path: '/svc/policies',
    door: 'gateway',
    summary: 'All policies: those of the folder, then those of the store',
    params: nothing,
    query: nothing,
    bodyForm: 'none',
    body: Type.Unknown(),
    malformed: '',
    answer: Type.Array(Policy),
    handle: (_call, { policies }) => policies.list()
  }),

  endpoint({
    method: 'GET',
    path: '/svc/policies/{id}',
    door: 'gateway',
    summary: 'Reads a policy',
    params: PolicyId,
    query: nothing,
    bodyForm: 'none',
    body: Type.Unknown(),
    malformed: '',
    answer: Policy,
    async handle({ params }, { policies }) {
      const policy = await policies.get(safe(params.id))
      if (policy === null) throw new Refused(404, 'Policy not found')
      return policy
    }
  }),

  endpoint({
    method: 'POST',
    path: '/svc/policies',
    door: 'gateway',
    summary: 'Creates a policy',
    params: nothing,
    query: nothing,
    bodyForm: 'json',
    body: Policy,
    malformed: 'Request malformed',
    answer: PolicyResponse,
    async handle(call, tools) {
      const id = call.body.id || call.body._id
      if (!id) throw new Refused(400, 'Unable to create policy without id.')
      const key = await createPolicy({ ...call.body, id }, words, call, tools)
      return { key, status: 'ok', action: 'added' }
    }
  }),

  endpoint({
    method: 'PUT',
    path: '/svc/policies/{id}',
    door: 'gateway',
    summary: 'Replaces a policy; it counts for the next request of its keys',
    params: PolicyId,
    query: nothing,
    bodyForm: 'json',
    body: Policy,
    malformed: 'Request malformed',
    answer: PolicyResponse,
    async handle(call, tools) {
      const { params, body } = call
      const id = safe(params.id)
      if (body.id !== undefined && body.id !== id)
        throw new Refused(400, 'Request ID does not match that in policy! For Update operations these must match.')
      await replacePolicy(id, body, 'updated', words, call, tools)
      return { key: id, status: 'ok', action: 'modified' }
    }
  }),

  endpoint({
    method: 'DELETE',
    path: '/svc/policies/{id}',
    door: 'gateway',
    summary: 'Deletes a policy; keys that have no other open nothing from the next request on',
    params: PolicyId,
    query: nothing,
    bodyForm: 'none',
    body: Type.Unknown(),
    malformed: '',
    answer: PolicyResponse,
    async handle(call, tools) {
      const id = safe(call.params.id)
      await removePolicy(id, words, call, tools)
      return { key: id, status: 'ok', action: 'deleted' }
    }
  })
]

function safe(id: string): string {
  if (!isPolicyId(id)) throw new Refused(400, policyIdText)
  return id
}
