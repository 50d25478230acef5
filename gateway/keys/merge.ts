import type { Key } from '../../config/shape/key.ts'
import type { AccessRight, ApiLimit } from '../../config/shape/limit.ts'
import type { Policy } from '../../config/shape/policy.ts'

/**
 * How policies make a key (semantics §4.6): pure functions; nothing given is changed. API ids and meta-data names come
 * from outside: they live in Maps and become members through `Object.fromEntries`, which defines `__proto__` like any
 * other name.
 */

/** A policy as a key names it; null: there is none of that id. */
export interface Named {
  readonly id: string
  readonly policy: Policy | null
}

export type Applied = { readonly key: Key } | { readonly problem: string }

export type Partition = 'acl' | 'rate_limit' | 'quota' | 'complexity'

type Rights = readonly [string, AccessRight][]
type Limit = { -readonly [M in keyof ApiLimit]: ApiLimit[M] }

const members = {
  rate_limit: ['rate', 'per', 'smoothing', 'throttle_interval', 'throttle_retry_limit'],
  quota: ['quota_max', 'quota_renewal_rate', 'quota_remaining'],
  complexity: ['max_query_depth']
} as const satisfies Record<string, readonly (keyof ApiLimit)[]>
const limitPartitions = ['rate_limit', 'quota', 'complexity'] as const
type LimitPartition = (typeof limitPartitions)[number]

/** Whether a policy says something about a partition: it is set, or none is and the policy is not `per_api`. */
export function controls({ partitions = {} }: Policy, partition: Partition): boolean {
  return partitions[partition] === true || !(partitions.per_api === true || isPartitioned(partitions))
}

export function isPartitioned({ acl, quota, rate_limit, complexity }: NonNullable<Policy['partitions']>): boolean {
  return acl === true || quota === true || rate_limit === true || complexity === true
}

/** Semantics §4.3, "Empty limit": then the values of the key itself count. */
export function isEmptyLimit(limit: ApiLimit | null | undefined): boolean {
  if (limit === null || limit === undefined) return true
  const { rate, per, throttle_interval, throttle_retry_limit, max_query_depth, quota_max, quota_renewal_rate } = limit
  return ![rate, per, throttle_interval, throttle_retry_limit, max_query_depth, quota_max, quota_renewal_rate].some(
    Boolean
  )
}

/** One API on the way through the policies. */
interface Entry {
  right: AccessRight
  /** The last policy that gave it access; '' while none did. */
  giver: string
  scope: string
  readonly limit: Limit
  readonly covered: Set<LimitPartition>
}

/**
 * The key as it counts: with its policies applied in the order given, or the reason why they cannot be.
 * @param org the key's organisation
 */
export function applyPolicies(key: Key, org: string, named: readonly Named[]): Applied {
  if (named.length === 0) return { key: { ...key, access_rights: scoped(rightsOf(key)) } }

  const policies: { id: string; policy: Policy }[] = []
  for (const { id, policy } of named) {
    if (policy === null) {
      if (named.length === 1) return { problem: `policy not found: "${id}"` }
      continue
    }
    if ((policy.org_id || 'default') !== org) return { problem: `policy "${id}" belongs to another organisation` }
    const { partitions = {} } = policy
    if (partitions.per_api && isPartitioned(partitions))
      return { problem: `cannot apply policy ${id} which has per_api and any of partitions set` }
    policies.push({ id, policy })
  }
  if (policies.length === 0) return { problem: 'key has no valid policies to be applied' }
  if (
    policies.some(({ policy }) => policy.partitions?.per_api) &&
    policies.some(({ policy }) => isPartitioned(policy.partitions ?? {}))
  )
    return { problem: 'cannot apply multiple policies when some have per_api set and some are partitioned' }

  const root: Limit = limitOf(key)
  for (const { policy } of policies) {
    for (const partition of limitPartitions) if (controls(policy, partition)) clear(root, partition)
  }
  // What the policies give in all, for APIs that a policy grants without a word about this partition.
  const best: Limit = {}
  const entries = new Map<string, Entry>()
  const own = new Map(rightsOf(key))
  let grantsAccess = false
  let isMaster = false
  for (const { id, policy } of policies) {
    const rights = rightsOf(policy)
    for (const [apiId, right] of rights) {
      let entry = entries.get(apiId)
      if (entry === undefined) {
        entry = { right: {}, giver: '', scope: '', limit: {}, covered: new Set() }
        const renews = own.get(apiId)?.limit?.quota_renews
        if (renews !== undefined) entry.limit.quota_renews = renews
        entries.set(apiId, entry)
      }
      if (policy.partitions?.per_api) applyPerApi(entry, right, id, apiId, policy)
      else applyPartitions(entry, right, id, policy, best)
      if (entry.giver !== '') grantsAccess = true
    }
    if (rights.length === 0) {
      isMaster = true
      for (const partition of limitPartitions) {
        if (controls(policy, partition)) replace(root, partition, policy)
      }
    }
  }

  const onlyApi = onlyCovered(entries)
  for (const [apiId, entry] of entries) if (entry.giver === '') entries.delete(apiId)
  const givers = new Set([...entries.values()].map(({ giver }) => giver))
  const granted = [...entries].map(([apiId, entry]): [string, AccessRight] => {
    for (const partition of limitPartitions) {
      if (!entry.covered.has(partition)) replace(entry.limit, partition, says(root, partition) ? root : best)
    }
    const scope = entry.scope === '' && givers.size > 1 ? entry.giver : entry.scope
    const right = { ...entry.right }
    if (!isEmptyLimit(entry.limit)) right.limit = entry.limit
    if (scope !== '') right.allowance_scope = scope
    return [apiId, right]
  })
  if (!grantsAccess) {
    // The rights stay the key's own, so what the policies say about limits can only stand at its root.
    for (const partition of limitPartitions) if (!says(root, partition)) replace(root, partition, best)
  } else if (onlyApi !== null) {
    for (const partition of limitPartitions) replace(root, partition, onlyApi.limit)
  }
  const access_rights = grantsAccess ? Object.fromEntries(granted) : scoped(rightsOf(key))
  if (Object.keys(access_rights).length === 0 && !isMaster)
    return { problem: 'key has no valid policies to be applied' }
  const applied: Key = { ...key, access_rights }
  for (const partition of limitPartitions) replace(applied, partition, root)
  return {
    key: Object.assign(
      applied,
      words(
        key,
        policies.map(({ policy }) => policy)
      )
    )
  }
}

/** Members that are neither rights nor limits. The key's own `is_inactive` is not asked: only its policies' counts. */
function words(key: Key, policies: readonly Policy[]): Partial<Key> {
  const made: Partial<Key> = { is_inactive: policies.some(policy => policy.is_inactive === true) }
  const tags = new Set([...(key.tags ?? []), ...policies.flatMap(policy => policy.tags ?? [])])
  if (tags.size > 0) made.tags = [...tags]
  const metaData = new Map(Object.entries(isObject(key.meta_data) ? key.meta_data : {}))
  for (const policy of policies) {
    for (const [name, value] of Object.entries(policy.meta_data ?? {})) metaData.set(name, value)
    if ((policy.last_updated ?? '') > (made.last_updated ?? key.last_updated ?? ''))
      made.last_updated = policy.last_updated!
    if (policy.post_expiry_action) made.post_expiry_action = policy.post_expiry_action
    if (policy.post_expiry_grace_period) made.post_expiry_grace_period = policy.post_expiry_grace_period
    if (policy.hmac_enabled) made.hmac_enabled = true
    if (policy.enable_http_signature_validation) made.enable_http_signature_validation = true
  }
  const modes = policies.flatMap(policy => policy.rate_limit_mode ?? [])
  if (modes.length > 0) made.rate_limit_mode = modes.includes('exact') ? 'exact' : 'lease'
  if (policies.some(policy => policy.meta_data)) made.meta_data = Object.fromEntries(metaData)
  return made
}

export function isObject(value: unknown): value is Record<string, unknown> {
  return typeof value === 'object' && value !== null && !Array.isArray(value)
}

function rightsOf({ access_rights }: { access_rights?: Key['access_rights'] }): Rights {
  return Object.entries(access_rights ?? {})
}

/** A right with a limit of its own counts on its own. */
function scoped(rights: Rights): Record<string, AccessRight> {
  return Object.fromEntries(
    rights.map(([apiId, right]) => [apiId, isEmptyLimit(right.limit) ? right : { ...right, allowance_scope: apiId }])
  )
}

function applyPerApi(entry: Entry, right: AccessRight, id: string, apiId: string, policy: Policy): void {
  const isOwn = !isEmptyLimit(right.limit)
  const limit = isOwn ? right.limit! : limitOf(policy)
  for (const partition of limitPartitions) {
    merge(entry.limit, partition, limit)
    entry.covered.add(partition)
  }
  // The narrower scope wins, whichever policy comes first.
  if (isOwn) entry.scope = apiId
  else if (entry.scope === '') entry.scope = id
  giveAccess(entry, right, id)
}

function applyPartitions(entry: Entry, right: AccessRight, id: string, policy: Policy, best: Limit): void {
  if (controls(policy, 'acl')) giveAccess(entry, right, id)
  for (const partition of limitPartitions) {
    if (!controls(policy, partition)) continue
    merge(entry.limit, partition, policy)
    merge(best, partition, policy)
    entry.covered.add(partition)
  }
}

function giveAccess(entry: Entry, right: AccessRight, id: string): void {
  const { limit: _limit, allowance_scope: _scope, ...access } = right
  const isFirst = entry.giver === ''
  entry.giver = id
  const before = entry.right
  entry.right = { ...access, ...before }
  if (isFirst) return
  if (access.disable_introspection) entry.right.disable_introspection = true
  if (before.versions || access.versions)
    entry.right.versions = [...new Set([...(before.versions ?? []), ...(access.versions ?? [])])]
  if (before.allowed_urls || access.allowed_urls)
    entry.right.allowed_urls = mergeUrls([...(before.allowed_urls ?? []), ...(access.allowed_urls ?? [])])
  if (before.endpoints || access.endpoints)
    entry.right.endpoints = mergeEndpoints([...(before.endpoints ?? []), ...(access.endpoints ?? [])])
}

function mergeUrls(urls: NonNullable<AccessRight['allowed_urls']>): NonNullable<AccessRight['allowed_urls']> {
  const methodsOf = new Map<string, Set<string>>()
  for (const { url, methods } of urls) {
    const known = methodsOf.get(url) ?? new Set()
    for (const method of methods ?? []) known.add(method)
    methodsOf.set(url, known)
  }
  return [...methodsOf].map(([url, methods]) => ({ url, methods: [...methods] }))
}

type Endpoints = NonNullable<AccessRight['endpoints']>

function mergeEndpoints(endpoints: Endpoints): Endpoints {
  const paths = new Map<string, Map<string, Endpoints[number]['methods'][number]>>()
  for (const { path, methods } of endpoints) {
    const known = paths.get(path) ?? new Map()
    for (const method of methods) {
      const name = method.name.toUpperCase()
      const before = known.get(name)
      if (before === undefined || isFaster(method.limit, before.limit, 'largerRateWins')) known.set(name, method)
    }
    paths.set(path, known)
  }
  return [...paths].map(([path, methods]) => ({ path, methods: [...methods.values()] }))
}

/** Merges one partition of a limit into another: the more generous value of each member stays. */
function merge(into: Limit, partition: LimitPartition, from: ApiLimit): void {
  if (partition === 'quota') {
    keepMost(into, 'quota_max', from.quota_max)
    keepLarger(into, 'quota_renewal_rate', from.quota_renewal_rate)
  } else if (partition === 'complexity') keepMost(into, 'max_query_depth', from.max_query_depth)
  else {
    if (isFaster(from, into, 'firstStays')) {
      into.rate = from.rate!
      into.per = from.per!
      if (!from.smoothing) delete into.smoothing
      else into.smoothing = from.smoothing
    }
    keepLarger(into, 'throttle_interval', from.throttle_interval)
    keepLarger(into, 'throttle_retry_limit', from.throttle_retry_limit)
  }
}

/** Whether a rate replaces another: fewer seconds a request. Unlimited takes 0 s; a rate or window of 0 says nothing. */
function isFaster(rate: Paced, than: Paced, tie: 'firstStays' | 'largerRateWins'): boolean {
  const pace = secondsPerRequest(rate)
  const other = secondsPerRequest(than)
  if (pace === null || other === null) return pace !== null
  return pace < other || (tie === 'largerRateWins' && pace === other && rate.rate! > than.rate!)
}

type Paced = { readonly rate?: number; readonly per?: number }

function secondsPerRequest({ rate = 0, per = 0 }: Paced): number | null {
  if (rate === 0 || per === 0) return null
  return rate < 0 ? 0 : per / rate
}

/** -1 is the largest. */
function keepMost(into: Limit, member: 'quota_max' | 'max_query_depth', value = 0): void {
  const before = into[member] ?? 0
  if (before < 0 || value === 0) return
  if (value < 0 || value > before) into[member] = value
}

type Larger = 'quota_renewal_rate' | 'throttle_interval' | 'throttle_retry_limit'

function keepLarger(into: Limit, member: Larger, value: number | undefined): void {
  if (value !== undefined && value > (into[member] ?? -Infinity)) into[member] = value
}

function says(limit: Limit, partition: LimitPartition): boolean {
  return members[partition].some(member => limit[member] !== undefined)
}

function clear(limit: Limit, partition: LimitPartition): void {
  for (const member of members[partition]) delete limit[member]
}

function replace(limit: Limit, partition: LimitPartition, by: ApiLimit): void {
  clear(limit, partition)
  for (const member of members[partition]) {
    if (by[member] !== undefined) Object.assign(limit, { [member]: by[member] })
  }
}

/** The limit members of a key or a policy alone. */
function limitOf(given: ApiLimit): Limit {
  const limit: Limit = {}
  for (const partition of limitPartitions) replace(limit, partition, given)
  return limit
}

/** The only API that got a rate, a quota and a depth, if there is exactly one of each. */
function onlyCovered(entries: ReadonlyMap<string, Entry>): Entry | null {
  const one = (partition: LimitPartition): Entry | null => {
    const covered = [...entries.values()].filter(entry => entry.covered.has(partition))
    return covered.length === 1 ? covered[0]! : null
  }
  const entry = one('rate_limit')
  return entry !== null && entry === one('quota') && entry === one('complexity') ? entry : null
}
