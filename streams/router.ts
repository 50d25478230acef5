import type { Endpoint } from './plan.ts'
import { type No, no, nos } from './refusals.ts'

/** Where a request goes, and what stood in the path's placeholders. */
export interface Routed<E> {
  readonly endpoint: E
  readonly params: Readonly<Record<string, string>>
}

/** All stream paths of one API, compiled at load. */
export interface Router<E> {
  /** `path`: behind the listen path. A refusal says what the path would take. */
  find(method: string, path: string, isUpgrade: boolean): Routed<E> | No
}

interface Pattern<E> {
  readonly segments: readonly Segment[]
  readonly endpoints: E[]
}

/** A name: takes any one segment. */
type Segment = { readonly text: string } | { readonly name: string }

const NO_PARAMS = {}
const wrongProtocol = no('websocket_not_here', 400, 'This path takes no WebSocket')

/** Literal paths come before those with placeholders; of those, the first in which a literal segment stands further left. */
export function router<E extends Endpoint>(endpoints: readonly E[]): Router<E> {
  const literal = new Map<string, E[]>()
  const patterns = new Map<string, Pattern<E>>()
  for (const endpoint of endpoints) {
    const { path } = endpoint
    if (!path.includes('{')) listed(literal, path, () => []).push(endpoint)
    else listed(patterns, shapeOf(path), () => ({ segments: segmentsOf(path), endpoints: [] })).endpoints.push(endpoint)
  }
  const ordered = [...patterns.values()].sort(
    (a, b) => Number(rank(a.segments) > rank(b.segments)) - Number(rank(a.segments) < rank(b.segments))
  )
  return {
    find(method, path, isUpgrade) {
      const here: E[] = []
      const exact = literal.get(path)
      if (exact !== undefined) {
        const found = chosen(exact, method, isUpgrade)
        if (found !== null) return { endpoint: found, params: NO_PARAMS }
        if (lacksUpgrade(exact, method, isUpgrade)) return nos.notUpgraded
        here.push(...exact)
      }
      for (const { segments, endpoints } of ordered) {
        const params = matched(segments, path)
        if (params === null) continue
        const found = chosen(endpoints, method, isUpgrade)
        if (found !== null) return { endpoint: found, params }
        if (lacksUpgrade(endpoints, method, isUpgrade)) return nos.notUpgraded
        here.push(...endpoints)
      }
      return here.length === 0 ? nos.noRoute : refusalOf(here, isUpgrade)
    }
  }
}

/** Equal for paths that take the same requests. */
export function shapeOf(path: string): string {
  return path.replace(/\{[^/]*\}/g, '{}')
}

export function isWebSocket({ kind }: Endpoint): boolean {
  return kind === 'websocket' || kind === 'produce_websocket'
}

function chosen<E extends Endpoint>(endpoints: readonly E[], method: string, isUpgrade: boolean): E | null {
  for (const endpoint of endpoints)
    if (isWebSocket(endpoint) === isUpgrade && endpoint.verbs.includes(method)) return endpoint
  return null
}

/** A WebSocket path holds its GET, whatever less specific path would take that too. */
function lacksUpgrade(endpoints: readonly Endpoint[], method: string, isUpgrade: boolean): boolean {
  return !isUpgrade && method === 'GET' && endpoints.some(isWebSocket)
}

/** The path is there, but not for this request. */
function refusalOf(endpoints: readonly Endpoint[], isUpgrade: boolean): No {
  if (isUpgrade && !endpoints.some(isWebSocket)) return wrongProtocol
  const verbs = [...new Set(endpoints.flatMap(({ verbs }) => verbs))].sort()
  return no('method_not_allowed', 405, 'Incorrect method', ['Allow', verbs.join(', ')])
}

function segmentsOf(path: string): readonly Segment[] {
  return path
    .slice(1)
    .split('/')
    .map(text => (/^\{.*\}$/.test(text) ? { name: text.slice(1, -1) } : { text }))
}

/** Sorts literal segments before placeholders, from the left. */
function rank(segments: readonly Segment[]): string {
  return segments.map(segment => ('text' in segment ? '0' : '1')).join('')
}

function matched(segments: readonly Segment[], path: string): Record<string, string> | null {
  const given = path.slice(1).split('/')
  if (given.length !== segments.length) return null
  const params: Record<string, string> = Object.create(null)
  for (const [i, segment] of segments.entries()) {
    const text = given[i]!
    if ('name' in segment ? text === '' : text !== segment.text) return null
    if ('name' in segment) params[segment.name] = decoded(text)
  }
  return params
}

/** The path keeps escapes whose meaning rules must not touch; a value is wanted as it was meant. */
function decoded(text: string): string {
  if (!text.includes('%')) return text
  try {
    return decodeURIComponent(text)
  } catch {
    return text
  }
}

function listed<K, V>(map: Map<K, V>, key: K, fresh: () => V): V {
  const known = map.get(key)
  if (known !== undefined) return known
  const made = fresh()
  map.set(key, made)
  return made
}
