import Type from 'typebox'
import { Policy } from '../../config/shape/policy.ts'
import { Invalid } from '../../config/validate.ts'
import { isPolicyId, partitionFault, policyIdText, ruleFaults } from '../../gateway/keys/check.ts'
import { Conflict } from '../../gateway/store/store.ts'
import { endpoint, Refused, toldFaults } from '../endpoint.ts'
import type { ControlTools } from '../tools.ts'

const PolicyResponse = Type.Object({
  key: Type.String(),
  status: Type.Literal('ok'),
  action: Type.Enum(['added', 'modified', 'deleted'])
})
const strict = { additionalProperties: false } as const
const PolicyId = Type.Object({ id: Type.String() }, strict)
const nothing = Type.Object({}, strict)

/** Tries of a change that others get ahead of; each time somebody's change succeeds. */
const MOST_TRIES = 100

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
    async handle({ body }, tools) {
      const id = body.id || body._id
      if (!id) throw new Refused(400, 'Unable to create policy without id.')
      mayWrite(safe(id), tools)
      const policy = { ...checked(id, body, tools), id, _id: tools.random.bytes(12).toString('hex') }
      policy.date_created = new Date(tools.clock.now()).toISOString()
      try {
        await put(id, policy, 0, tools)
      } catch (cause) {
        if (cause instanceof Conflict) throw new Refused(409, `A policy of the id ${id} exists already`)
        throw cause
      }
      return { key: id, status: 'ok', action: 'added' }
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
    async handle({ params, body }, tools) {
      const id = safe(params.id)
      if (body.id !== undefined && body.id !== id)
        throw new Refused(400, 'Request ID does not match that in policy! For Update operations these must match.')
      const given = checked(id, body, tools)
      await change(id, tools, ({ _id, date_created, org_id }) => ({
        ...given,
        id,
        ...(_id === undefined ? {} : { _id }),
        ...(date_created === undefined ? {} : { date_created }),
        org_id: body.org_id || org_id || 'default'
      }))
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
    async handle({ params }, tools) {
      const id = safe(params.id)
      await change(id, tools, () => null)
      return { key: id, status: 'ok', action: 'deleted' }
    }
  })
]

function safe(id: string): string {
  if (!isPolicyId(id)) throw new Refused(400, policyIdText)
  return id
}

function mayWrite(id: string, { policies }: ControlTools): void {
  const file = policies.fileOf(id)
  if (file !== null) throw new Refused(409, `Policy ${id} comes from ${file} and is read-only`)
}

/** @throws Refused with all faults */
function checked(id: string, body: Policy, { settings, clock }: ControlTools): Policy {
  const faults = ruleFaults(body, { matching: settings.gateway.endpoint_matching, ignoreCase: false })
  if (faults.length > 0)
    throw new Refused(400, `Request malformed: ${new Invalid(faults).message}`.slice(0, 2000), {
      more: { faults: toldFaults(faults) }
    })
  const partitions = partitionFault(id, body)
  if (partitions !== null) throw new Refused(400, partitions)
  return { ...body, org_id: body.org_id || 'default', last_updated: String(Math.floor(clock.now() / 1000)) }
}

/** Answers once the next request counts by it. @throws Conflict when the policy has another revision than `expect` */
async function put(id: string, policy: Policy | null, expect: number, { store, changes }: ControlTools): Promise<void> {
  const write = { kind: 'policy', id, expect } as const
  const org = policy?.org_id ?? 'default'
  const sequence = await store.commit([policy === null ? { ...write, body: null } : { ...write, org, body: policy }])
  await changes.publish([{ sequence, kind: 'policy', id, deleted: policy === null }])
}

/** Changes a policy from what it is now, whoever else changes it; null deletes it. @throws Refused */
async function change(id: string, tools: ControlTools, make: (policy: Policy) => Policy | null): Promise<void> {
  mayWrite(id, tools)
  for (let tries = 0; tries < MOST_TRIES; tries++) {
    const document = await tools.store.get<Policy>('policy', id)
    if (document === null) throw new Refused(404, 'Policy not found')
    try {
      return await put(id, make(document.body), document.rev, tools)
    } catch (cause) {
      if (!(cause instanceof Conflict)) throw cause
    }
  }
  throw new Refused(409, 'The policy is being changed by others')
}
