import type { Static } from 'typebox'
import { type HookReference, hookFaults } from '../../config/shape/hook.ts'
import { type AccessRights, type ApiLimit, limitFaults } from '../../config/shape/limit.ts'
import { Policy } from '../../config/shape/policy.ts'
import { compile, type Fault, Invalid, pointer } from '../../config/validate.ts'
import { UNKNOWN_VARIABLE } from '../documents/readMembers.ts'
import { CompileBudget, type Matching, pathRule } from '../paths.ts'
import { isObject, isPartitioned, type Named } from './merge.ts'

/** What a shape alone cannot say about keys and policies; asked wherever one comes in. */

const policyShape = compile(Policy)

export const policyIdText = 'Invalid Policy ID: Allowed characters: a-z, A-Z, 0-9, ., _, -, ~'

export function isPolicyId(id: string): boolean {
  // Dots alone are dot segments, which no client sends (RFC 3986 §5.2.4).
  return /^(?!\.+$)[a-zA-Z0-9._~-]{1,256}$/.test(id)
}

/** Why a policy's partitions can never be applied (semantics §4.6); null: they can. */
export function partitionFault(id: string, { partitions }: Policy): string | null {
  if (!partitions?.per_api || !isPartitioned(partitions)) return null
  return `cannot apply policy ${id} which has per_api and any of partitions set`
}

/** What the paths of a key or a policy may cost to compile, all APIs together. */
const MOST_COMPILED = 10_000

type Ruled = ApiLimit & {
  readonly access_rights?: Static<typeof AccessRights>
  readonly org_id?: string
  readonly meta_data?: unknown
  readonly hook_references?: readonly HookReference[] | null
}

/** Faults of a key or a policy that has its shape. */
export function ruleFaults(given: Ruled, matching: Matching): Fault[] {
  const faults = limitFaults(given, '')
  if (given.org_id?.includes('\0')) faults.push({ path: '/org_id', message: 'must not contain NUL' })
  faults.push(...countedByFaults(given.meta_data))
  for (const [i, { hook }] of (given.hook_references ?? []).entries())
    faults.push(...hookFaults(hook, `/hook_references/${i}/hook`))
  const budget = new CompileBudget(MOST_COMPILED)
  for (const [apiId, right] of Object.entries(given.access_rights ?? {})) {
    if (budget.isSpent) break
    const at = `/access_rights/${pointer(apiId)}`
    if (right.limit) faults.push(...limitFaults(right.limit, `${at}/limit`))
    for (const [i, { url }] of (right.allowed_urls ?? []).entries())
      faults.push(...patternFaults(url, matching, budget, `${at}/allowed_urls/${i}/url`))
    for (const [i, { path, methods }] of (right.endpoints ?? []).entries()) {
      faults.push(...patternFaults(path, matching, budget, `${at}/endpoints/${i}/path`))
      for (const [m, { limit }] of methods.entries())
        faults.push(...limitFaults(limit, `${at}/endpoints/${i}/methods/${m}/limit`))
    }
  }
  return faults
}

/** `meta_data.rate_limit_pattern` */
function countedByFaults(metaData: unknown): Fault[] {
  const template = isObject(metaData) ? (metaData.rate_limit_pattern ?? '') : ''
  const path = '/meta_data/rate_limit_pattern'
  if (typeof template !== 'string') return [{ path, message: 'must be a text' }]
  const unknown = UNKNOWN_VARIABLE.exec(template)
  return unknown === null ? [] : [{ path, message: `has a variable that does not exist: ${unknown[0]}` }]
}

function patternFaults(pattern: string, matching: Matching, budget: CompileBudget, path: string): Fault[] {
  const wasSpent = budget.isSpent
  try {
    pathRule(pattern, matching, budget)
    return []
  } catch (cause) {
    if (!(cause instanceof Invalid)) throw cause
    // Told once.
    if (wasSpent) return []
    return cause.faults.map(({ message }) => ({ path, message }))
  }
}

/**
 * Policies that a key carries itself: `meta_data.policies`, when it is a list of objects (semantics §4.3). They are of
 * the key's organisation unless they say otherwise. Null: it carries none.
 * @throws Invalid with their faults
 */
export function inlinePolicies(metaData: unknown, org: string, matching: Matching): Named[] | null {
  if (!isObject(metaData) || !Object.hasOwn(metaData, 'policies')) return null
  const { policies } = metaData
  if (!Array.isArray(policies) || policies.length === 0 || !policies.every(isObject)) return null
  return policies.map((given, i) => {
    const at = `/meta_data/policies/${i}`
    const policy = readPolicy(given, matching, at)
    const id = policy.id || policy._id
    if (!id) throw new Invalid([{ path: `${at}/id`, message: 'is required' }])
    return { id, policy: { ...policy, org_id: policy.org_id || org } }
  })
}

/** @throws Invalid with all faults, their paths below `at` */
export function readPolicy(given: unknown, matching: Matching, at = ''): Policy {
  try {
    const policy = policyShape(given)
    const faults = ruleFaults(policy, matching)
    if (faults.length > 0) throw new Invalid(faults)
    return policy
  } catch (cause) {
    if (!(cause instanceof Invalid)) throw cause
    throw new Invalid(cause.faults.map(({ path, message }) => ({ path: at + path, message })))
  }
}
