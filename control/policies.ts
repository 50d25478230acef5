import { absentInPolicy, type Policy } from '../config/shape/policy.ts'
import { type Fault, Invalid } from '../config/validate.ts'
import { isPolicyId, partitionFault, policyIdText, readPolicy, ruleFaults } from '../gateway/keys/check.ts'
import { Conflict, type Document, type Revision, type Store, type Write } from '../gateway/store/store.ts'
import { owns } from './caller.ts'
import { type Call, Refused, toldFaults } from './endpoint.ts'
import { maskedHook } from './hooks.ts'
import { nameId, newId } from './ids.ts'
import { holderOf, type Name, NameTaken, nameWrites } from './names.ts'
import { revisionDeletions, revisionWrites } from './revisions.ts'
import type { ControlTools } from './tools.ts'
import { tried } from './tries.ts'

/**
 * Writing policies, whoever asks: with the organisation, a unique name, a database id, revisions and the audit record in
 * one commit. They count for the next request. Ids are unique in the whole installation: keys name policies by them.
 */

export type Asked = Pick<Call<unknown, unknown, unknown>, 'caller' | 'matched' | 'changed'>

/** The texts in which the interfaces differ. */
export interface Words {
  readonly malformed: (faults: Invalid) => string
  readonly unknown: string
  readonly readOnly: (id: string, file: string) => string
}

const NAME_TAKEN = 'This policy name has already been used. Enter a unique policy name.'

export interface OwnPolicy {
  readonly policy: Policy
  readonly id: string
  /** Null: it comes from a file. */
  readonly document: Document<Policy> | null
}

/** A policy that the caller may see, by its id or else its database id; null: none. */
export async function ownPolicy(
  id: string,
  { caller }: Pick<Asked, 'caller'>,
  { policies, store }: Pick<ControlTools, 'policies' | 'store'>
): Promise<OwnPolicy | null> {
  if (policies.fileOf(id) !== null) {
    const policy = await policies.get(id)
    return policy !== null && owns(caller, policy.org_id ?? 'default') ? { policy, id, document: null } : null
  }
  const direct = await store.get<Policy>('policy', id)
  const document = direct ?? (await byDatabaseId(id, store))
  if (document === null || !owns(caller, document.org)) return null
  return { policy: document.body, id: document.id, document }
}

async function byDatabaseId(id: string, store: ControlTools['store']): Promise<Document<Policy> | null> {
  const holder = await holderOf(DATABASE_ID, { org: '', name: id }, store)
  return holder === null ? null : store.get<Policy>('policy', holder)
}

/** Where a policy is found by its database id; its id stands there too, so that no other policy gets it as either. */
const DATABASE_ID = 'policy _id'

/** @throws Refused */
export async function createPolicy(given: Policy, words: Words, asked: Asked, tools: ControlTools): Promise<string> {
  const _id = await newDatabaseId(tools)
  const id = given.id || _id
  mayWrite(id, words, tools)
  const org_id = orgFor(given, null, asked)
  const date_created = new Date(tools.clock.now()).toISOString()
  const policy = { ...checked(id, { ...given, org_id }, words, tools), id, _id, date_created }
  try {
    await put(null, policy, 'created', asked, tools)
  } catch (cause) {
    if (!(cause instanceof Conflict)) throw cause
    const ids = spellings(policy).map(({ org, name }) => nameId(DATABASE_ID, org, name))
    if (cause.kind === 'name' && !ids.includes(cause.id)) throw new Refused(400, NAME_TAKEN)
    throw idTaken(id)
  }
  return id
}

/**
 * Puts a policy in the place of the one with this id.
 * @param summary what stands in the list of revisions
 * @throws Refused
 */
export function replacePolicy(
  id: string,
  given: Policy,
  summary: string,
  words: Words,
  asked: Asked,
  tools: ControlTools
): Promise<Revision> {
  return change(id, words, asked, tools, async document => {
    const { _id = await newDatabaseId(tools), date_created } = document.body
    const org_id = orgFor(given, document, asked)
    const created = date_created === undefined ? {} : { date_created }
    const policy = { ...checked(id, { ...given, org_id }, words, tools), id, _id, ...created }
    asked.changed(audited(document.body), audited(policy))
    return put(document, policy, summary, asked, tools)
  })
}

/** Makes an earlier state of a policy the present one, if it still passes every check. @throws Refused */
export function restorePolicy(
  id: string,
  state: unknown,
  summary: string,
  words: Words,
  asked: Asked,
  tools: ControlTools
): Promise<Revision> {
  let policy: Policy
  try {
    policy = readPolicy(structuredClone(state), matchingOf(tools))
  } catch (cause) {
    if (!(cause instanceof Invalid)) throw cause
    throw refusedFor(cause.faults, words)
  }
  return replacePolicy(id, policy, summary, words, asked, tools)
}

/** @throws Refused */
export function removePolicy(id: string, words: Words, asked: Asked, tools: ControlTools): Promise<Revision> {
  const { store, changes } = tools
  return change(id, words, asked, tools, async ({ rev, body }) => {
    const writes: Write[] = [
      { kind: 'policy', id, body: null, expect: rev },
      ...(await nameWrites('policy', id, nameOf(body), null, store)),
      ...(await spellingWrites(id, spellings({ ...body, id }), [], store)),
      ...revisionDeletions('policy', id, rev)
    ]
    const sequence = await store.commit(writes)
    await changes.publish([{ sequence, kind: 'policy', id, deleted: true }])
    return rev
  })
}

/** @throws Refused */
export function mayWrite(id: string, words: Words, { policies }: Pick<ControlTools, 'policies'>): void {
  if (!isPolicyId(id)) throw new Refused(400, policyIdText)
  const file = policies.fileOf(id)
  if (file !== null) throw new Refused(409, words.readOnly(id, file))
}

/** Changes a policy from what it is now, whoever else changes it. @throws Refused */
async function change(
  id: string,
  words: Words,
  { caller, matched }: Asked,
  tools: ControlTools,
  write: (present: Document<Policy>) => Promise<Revision>
): Promise<Revision> {
  mayWrite(id, words, tools)
  return tried('policy', async () => {
    const document = await tools.store.get<Policy>('policy', id)
    if (document === null || !owns(caller, document.org)) throw new Refused(404, words.unknown)
    matched(document.rev)
    return write(document)
  })
}

/** Answers once the next request counts by it. @throws Conflict; Refused when its name is taken */
async function put(
  present: Document<Policy> | null,
  policy: Policy & { id: string },
  summary: string,
  { caller }: Asked,
  { store, changes, clock }: ControlTools
): Promise<Revision> {
  const { id, org_id: org = 'default' } = policy
  const rev = (present?.rev ?? 0) + 1
  const before = present === null ? null : nameOf(present.body)
  try {
    const writes: Write[] = [
      { kind: 'policy', id, org, body: policy, expect: rev - 1 },
      ...(await spellingWrites(id, [], spellings(policy), store)),
      ...(await nameWrites('policy', id, before, nameOf(policy), store)),
      ...revisionWrites('policy', { id, org, body: policy }, rev, { at: clock.now(), caller, summary })
    ]
    const sequence = await store.commit(writes)
    await changes.publish([{ sequence, kind: 'policy', id, deleted: false }])
    return rev
  } catch (cause) {
    if (cause instanceof NameTaken) throw new Refused(400, NAME_TAKEN)
    throw cause
  }
}

function audited(policy: Policy): Policy {
  if (!policy.hook_references) return policy
  return {
    ...policy,
    hook_references: policy.hook_references.map(reference => ({ ...reference, hook: maskedHook(reference.hook) }))
  }
}

/** Policies without a name share none. */
function nameOf({ name, org_id = 'default' }: Policy): Name | null {
  return name ? { org: org_id, name } : null
}

/** Its id and its database id: in the whole installation no other policy has either as the one or the other. */
function spellings({ id, _id = id }: Policy & { id: string }): Name[] {
  return [...new Set([id, _id])].map(name => ({ org: '', name }))
}

/** @throws Refused when another policy has one of them */
async function spellingWrites(
  id: string,
  before: readonly Name[],
  after: readonly Name[],
  store: Pick<Store, 'get'>
): Promise<Write[]> {
  try {
    const writes = [
      ...before.map(name => nameWrites(DATABASE_ID, id, name, null, store)),
      ...after.map(name => nameWrites(DATABASE_ID, id, null, name, store))
    ]
    return (await Promise.all(writes)).flat()
  } catch (cause) {
    throw cause instanceof NameTaken ? idTaken(id) : cause
  }
}

function idTaken(id: string): Refused {
  return new Refused(409, `A policy of the id ${id} exists already`)
}

/** One that no policy has as its id. */
async function newDatabaseId(tools: Pick<ControlTools, 'store' | 'policies' | 'clock' | 'random'>): Promise<string> {
  for (;;) {
    const id = newId(tools)
    if (tools.policies.fileOf(id) === null && (await tools.store.get('policy', id)) === null) return id
  }
}

/** @throws Refused 403 for another organisation than the caller's */
function orgFor({ org_id }: Policy, present: Document<Policy> | null, { caller }: Asked): string {
  const org = org_id || present?.org || caller.org || 'default'
  if (!owns(caller, org)) throw new Refused(403, 'access denied: the policy belongs to another organisation')
  return org
}

function matchingOf({ settings }: Pick<ControlTools, 'settings'>) {
  return { matching: settings.gateway.endpoint_matching, ignoreCase: false }
}

/** @throws Refused with all faults */
function checked(id: string, policy: Policy, words: Words, tools: ControlTools): Policy {
  const faults = ruleFaults(policy, matchingOf(tools))
  for (const [i, { hook }] of (policy.hook_references ?? []).entries())
    if (hook.org_id && hook.org_id !== policy.org_id)
      faults.push({ path: `/hook_references/${i}/hook/org_id`, message: "must be the policy's organisation" })
  if (faults.length > 0) throw refusedFor(faults, words)
  const partitions = partitionFault(id, policy)
  if (partitions !== null) throw new Refused(400, partitions)
  return { ...policy, last_updated: String(Math.floor(tools.clock.now() / 1000)) }
}

function refusedFor(faults: readonly Fault[], { malformed }: Words): Refused {
  return new Refused(400, malformed(new Invalid(faults)).slice(0, 2000), { more: { faults: toldFaults(faults) } })
}

/** A policy as readers of the management interface see it: with every member of the specification that decides something. */
export function shownPolicy(policy: Policy): Policy {
  return { ...absentInPolicy, ...policy, partitions: { ...absentInPolicy.partitions, ...policy.partitions } }
}
