import { setImmediate as nextTurn } from 'node:timers/promises'
import type { Static } from 'typebox'
import type { Policy } from '../config/shape/policy.ts'
import { isPolicyId } from '../gateway/keys/check.ts'
import { type Caller, owns } from './caller.ts'
import { Refused } from './endpoint.ts'
import { type Paging, pageAsked, pagesOf, slicePage, streamedList } from './page.ts'
import { ownPolicy, shownPolicy } from './policies.ts'
import { entryOf, type PolicyEntry, PolicyIndex } from './policyIndex.ts'
import { type PolicyFilters, policyFilter, policyOrder } from './policySearch.ts'
import type { ControlTools } from './tools.ts'

/** Lists of policies: those of the folder, then those of the store, oldest first. */

type Query = Static<typeof Paging>

/** One page of the whole list: the store reads that page alone. */
export async function pageOfPolicies(caller: Caller, query: Query, tools: ControlTools): Promise<unknown> {
  const asked = pageAsked(query, tools.settings)
  if (asked.page < 0) return streamedList('Data', 'Pages', everything(caller, tools))
  const { page, size } = asked
  const filed = filedOf(caller, tools)
  const start = (page - 1) * size
  const inFiles = filed.slice(start, start + size)
  // The folder's policies shift the store's pages: one page of ours may lie on two of the store's.
  const first = Math.max(0, start - filed.length)
  const skip = first % size
  const stored = (page: number) => tools.store.list<Policy>('policy', { ...ofOrg(caller), page, size })
  const under = Math.floor(first / size) + 1
  const { documents, total } = await stored(under)
  const further = skip === 0 ? [] : (await stored(under + 1)).documents
  const inStore = [...documents, ...further].slice(skip, skip + size - inFiles.length)
  return {
    Data: [...inFiles, ...inStore.map(({ body }) => body)].map(shownPolicy),
    Pages: pagesOf(filed.length + total, asked)
  }
}

/** Entries looked at before others have their turn: some milliseconds. */
const SLICE = 20_000

/** One page of what the filters leave; the policies of that page alone are read. @throws Refused */
export async function foundPolicies(
  caller: Caller,
  query: Query & PolicyFilters,
  tools: ControlTools
): Promise<unknown> {
  const isWanted = policyFilter(query, tools.apis)
  const among = query.policy_ids ? await namedEntries(query.policy_ids, caller, tools) : await entries(caller, tools)
  const found: PolicyEntry[] = []
  for (const [i, entry] of among.entries()) {
    if (i % SLICE === SLICE - 1) await nextTurn()
    if (isWanted(entry)) found.push(entry)
  }
  const order = policyOrder(query.sort)
  if (order !== null) found.sort(order)
  const asked = pageAsked(query, tools.settings)
  if (asked.page < 0) return streamedList('Data', 'Pages', readEach(found, caller, tools))
  const read = await Promise.all(slicePage(found, asked).map(({ id }) => ownPolicy(id, { caller }, tools)))
  return {
    Data: read.filter(own => own !== null).map(({ policy }) => shownPolicy(policy)),
    Pages: pagesOf(found.length, asked)
  }
}

const indexes = new WeakMap<ControlTools['policies'], PolicyIndex>()

async function entries(caller: Caller, tools: ControlTools): Promise<PolicyEntry[]> {
  const index = indexes.get(tools.policies) ?? new PolicyIndex(tools.store)
  indexes.set(tools.policies, index)
  const stored = await index.of(caller.org)
  return [...filedOf(caller, tools).map(policy => entryOf(policy)), ...stored]
}

/** The policies of these ids, each once, in the order asked for. @throws Refused 400 for what can be no id */
async function namedEntries(text: string, caller: Caller, tools: ControlTools): Promise<PolicyEntry[]> {
  const ids = text.split(',').map(id => id.trim())
  if (!ids.every(isPolicyId)) throw new Refused(400, 'Policy ID is not in hex format.')
  const found = new Map<string, PolicyEntry>()
  for (const id of ids) {
    const own = await ownPolicy(id, { caller }, tools)
    if (own !== null) found.set(own.id, entryOf(own.policy, own.id))
  }
  return [...found.values()]
}

async function* readEach(found: readonly PolicyEntry[], caller: Caller, tools: ControlTools): AsyncGenerator<Policy> {
  for (const { id } of found) {
    const own = await ownPolicy(id, { caller }, tools)
    if (own !== null) yield shownPolicy(own.policy)
  }
}

/** Everything that the caller may see, read in slices. */
async function* everything(caller: Caller, tools: ControlTools): AsyncGenerator<Policy> {
  yield* filedOf(caller, tools).map(shownPolicy)
  for await (const documents of tools.store.each<Policy>('policy', ofOrg(caller)))
    for (const { body } of documents) yield shownPolicy(body)
}

function filedOf(caller: Caller, { policies }: Pick<ControlTools, 'policies'>): readonly Policy[] {
  return policies.filed().filter(({ org_id }) => owns(caller, org_id ?? 'default'))
}

function ofOrg({ org }: Caller): { org?: string } {
  return org === null ? {} : { org }
}
