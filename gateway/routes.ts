import { setImmediate as nextTurn } from 'node:timers/promises'
import type { Api } from './api.ts'
import { readApi } from './documents/readApi.ts'
import type { Exchange, Route } from './exchange.ts'

/** Which route takes a request: by host, then by the longest listen path. Built whole, swapped whole, never changed. */
export interface Routes {
  /** Sets `x.route` and `x.rest`. `normal`: the path in normal form. False: no API takes it. */
  find(x: Exchange, normal: string): boolean
}

/** One host's listen paths: literal ones by path, those with placeholders in a list. */
interface Host {
  readonly literal: ReadonlyMap<string, Route>
  /** Numbers of segments that literal paths have, most first. */
  readonly depths: readonly number[]
  /** The longest first. */
  readonly patterns: readonly Pattern[]
}

interface Pattern {
  readonly route: Route
  /** Of its listen path, parameters not counted (semantics §7.1). */
  readonly length: number
}

export function routeTable(routes: readonly Route[]): Routes {
  const byHost = new Map<string, Route[]>()
  for (const route of routes) {
    if (!route.api.active || route.api.internal) continue
    const list = byHost.get(route.api.domain)
    if (list === undefined) byHost.set(route.api.domain, [route])
    else list.push(route)
  }
  const hosts = new Map([...byHost].map(([name, list]) => [name, host(list)]))
  const anyHost = hosts.get('') ?? host([])
  const onlyAny = hosts.size <= 1 && hosts.has('')
  return {
    find(x, normal) {
      // `OPTIONS *` asks about the server itself; it is no path.
      if (normal.charCodeAt(0) !== 47) return false
      if (!onlyAny) {
        const own = hosts.get(x.host)
        if (own !== undefined && x.host !== '' && take(own, x, normal)) return true
      }
      return take(anyHost, x, normal)
    }
  }
}

function host(routes: readonly Route[]): Host {
  const literal = new Map<string, Route>()
  const depths = new Set<number>()
  const patterns: Pattern[] = []
  for (const route of routes) {
    const { listenPath, listenSegments } = route.api
    if (listenSegments.includes(null)) {
      const length = listenSegments.reduce((sum, segment) => sum + 1 + (segment?.length ?? 0), 0)
      patterns.push({ route, length })
    } else {
      literal.set(listenPath, route)
      depths.add(listenSegments.length)
    }
  }
  patterns.sort((a, b) => b.length - a.length)
  return { literal, depths: [...depths].sort((a, b) => b - a), patterns }
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
  /** Compiles what changed and swaps the table; requests under way finish on the routes that they began with. */
  apply(changed: readonly Api[], removed: readonly string[]): Promise<void>
}

/** How long compiling goes on before requests get their turn. */
const SLICE_MS = 4

export function liveRoutes(compile: (api: Api) => Route): LiveRoutes {
  const byId = new Map<string, Route>()
  let table = routeTable([])
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
      for (const id of removed) byId.delete(id)
      for (const route of fresh) byId.set(route.api.id, route)
      table = routeTable([...byId.values()])
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
