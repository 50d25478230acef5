import { setImmediate as nextTurn } from 'node:timers/promises'
import type { Api } from './api.ts'
import { readApi } from './documents/readApi.ts'
import type { Exchange, Route } from './exchange.ts'

/** Which route takes a request: by host, then by the longest listen path. */
export interface Routes {
  /** Sets `x.route` and `x.rest`. `normal`: the path in normal form. False: no API takes it. */
  find(x: Exchange, normal: string): boolean
}

/** One host's listen paths: literal ones by path, those with placeholders in a list. */
interface Host {
  readonly literal: Map<string, Route>
  /** How many literal paths have so many segments. */
  readonly counts: Map<number, number>
  /** Numbers of segments that literal paths have, most first. */
  depths: readonly number[]
  /** The longest first; of equally long ones, the first by API id. */
  readonly patterns: Pattern[]
}

interface Pattern {
  readonly route: Route
  /** Of its listen path, parameters not counted (semantics §7.1). */
  readonly length: number
}

/** Changed in one go between two requests: only what changed is touched, since there may be tens of thousands. */
class RouteTable implements Routes {
  readonly #hosts = new Map<string, Host>()
  #any = emptyHost()
  #onlyAny = true

  find(x: Exchange, normal: string): boolean {
    // `OPTIONS *` asks about the server itself; it is no path.
    if (normal.charCodeAt(0) !== 47) return false
    if (!this.#onlyAny && x.host !== '') {
      const own = this.#hosts.get(x.host)
      if (own !== undefined && take(own, x, normal)) return true
    }
    return take(this.#any, x, normal)
  }

  change(old: readonly Route[], fresh: readonly Route[]): void {
    const touched = new Set<Host>()
    for (const route of old.filter(isRouted)) {
      const host = this.#hosts.get(route.api.domain)!
      if (remove(host, route)) touched.add(host)
      if (host.literal.size + host.patterns.length === 0) this.#hosts.delete(route.api.domain)
    }
    for (const route of fresh.filter(isRouted)) {
      const { domain } = route.api
      const host = this.#hosts.get(domain) ?? emptyHost()
      this.#hosts.set(domain, host)
      if (add(host, route)) touched.add(host)
    }
    for (const { patterns } of touched)
      patterns.sort((a, b) => b.length - a.length || (a.route.api.id < b.route.api.id ? -1 : 1))
    this.#any = this.#hosts.get('') ?? emptyHost()
    this.#onlyAny = this.#hosts.size === (this.#hosts.has('') ? 1 : 0)
  }
}

function emptyHost(): Host {
  return { literal: new Map(), counts: new Map(), depths: [], patterns: [] }
}

function isRouted({ api }: Route): boolean {
  return api.active && !api.internal
}

/** Whether it is a pattern. */
function add(host: Host, route: Route): boolean {
  const { listenPath, listenSegments } = route.api
  if (listenSegments.includes(null)) {
    const length = listenSegments.reduce((sum, segment) => sum + 1 + (segment?.length ?? 0), 0)
    host.patterns.push({ route, length })
    return true
  }
  host.literal.set(listenPath, route)
  counted(host, listenSegments.length, 1)
  return false
}

/** Whether it was a pattern. */
function remove(host: Host, route: Route): boolean {
  const { listenPath, listenSegments } = route.api
  if (listenSegments.includes(null)) {
    host.patterns.splice(
      host.patterns.findIndex(pattern => pattern.route === route),
      1
    )
    return true
  }
  host.literal.delete(listenPath)
  counted(host, listenSegments.length, -1)
  return false
}

function counted(host: Host, depth: number, more: number): void {
  const before = host.counts.get(depth) ?? 0
  if (before + more === 0) host.counts.delete(depth)
  else host.counts.set(depth, before + more)
  if (before === 0 || before + more === 0) host.depths = [...host.counts.keys()].sort((a, b) => b - a)
}

function take(host: Host, x: Exchange, normal: string): boolean {
  const { depths, literal, patterns } = host
  let best: Route | undefined
  let end = 0
  for (let i = 0; i < depths.length; i++) {
    const cut = segmentsEnd(normal, depths[i]!)
    if (cut < 0) continue
    best = literal.get(cut === normal.length ? normal : normal.slice(0, cut))
    if (best !== undefined) {
      end = cut
      break
    }
  }
  const beaten = best === undefined ? -1 : best.api.listenPath.length
  for (let i = 0; i < patterns.length && patterns[i]!.length > beaten; i++) {
    const { route } = patterns[i]!
    const cut = matchEnd(normal, route.api.listenSegments)
    if (cut >= 0) {
      best = route
      end = cut
      break
    }
  }
  if (best === undefined) return false
  x.route = best
  x.rest = end === normal.length ? '/' : end === 0 ? normal : normal.slice(end)
  return true
}

/** Where the first `count` segments of a normal path end (before the next slash); -1: it has fewer. */
export function segmentsEnd(normal: string, count: number): number {
  let at = 0
  for (let i = 0; i < count; i++) {
    if (at >= normal.length || normal.charCodeAt(at) !== 47) return -1
    const next = normal.indexOf('/', at + 1)
    if (next === at + 1) return -1
    at = next < 0 ? normal.length : next
    if (at === 1 && normal.length === 1) return -1
  }
  return at
}

function matchEnd(normal: string, segments: readonly (string | null)[]): number {
  let at = 0
  for (const segment of segments) {
    if (at >= normal.length) return -1
    const next = normal.indexOf('/', at + 1)
    const end = next < 0 ? normal.length : next
    if (end === at + 1) return -1
    if (segment !== null && (segment.length !== end - at - 1 || !normal.startsWith(segment, at + 1))) return -1
    at = end
  }
  return at
}

/** The routes of the APIs that are loaded now. */
export interface LiveRoutes extends Routes {
  /** Compiles what changed and takes it over in one go; requests under way finish on the routes that they began with. */
  apply(changed: readonly Api[], removed: readonly string[]): Promise<void>
}

/** How long compiling goes on before requests get their turn. */
const SLICE_MS = 4

export function liveRoutes(compile: (api: Api) => Route): LiveRoutes {
  const byId = new Map<string, Route>()
  const table = new RouteTable()
  return {
    find: (x, normal) => table.find(x, normal),
    async apply(changed, removed) {
      const fresh: Route[] = []
      let since = performance.now()
      for (const api of changed) {
        fresh.push(compile(api))
        if (performance.now() - since < SLICE_MS) continue
        await nextTurn()
        since = performance.now()
      }
      const old = [...removed, ...changed.map(({ id }) => id)].flatMap(id => byId.get(id) ?? [])
      for (const id of removed) byId.delete(id)
      for (const route of fresh) byId.set(route.api.id, route)
      table.change(old, fresh)
    }
  }
}

/** Where no API is: the route of requests that reach none. */
export const nowhere: Route = {
  api: {
    ...readApi(
      {
        openapi: '3.0.3',
        info: { title: '', version: '' },
        paths: {},
        'x-svc-api-gateway': {
          info: { id: 'nowhere', name: 'nowhere', state: { active: false } },
          upstream: { url: 'svc://echo' },
          server: { listenPath: { value: '/' } }
        }
      },
      { source: '', matching: 'exact' }
    ),
    id: '',
    name: '',
    orgId: ''
  },
  runs: [],
  heads: [],
  after: []
}
