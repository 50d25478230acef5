import { mkdirSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'

/** The path that every contender serves and every load asks for, where nothing else is said. */
export const path = '/bench/items/7'

export interface ApiOptions {
  readonly id: string
  readonly listenPath: string
  readonly upstream: string
  /** `key`: an API key in `Authorization`; else the scheme that asks for a credential. */
  readonly access: 'keyless' | 'key' | Scheme
  /** Comes back in the answer header `X-Generation`: tells which state of the document answered. */
  readonly generation?: number
}

/** A security scheme of OpenAPI, and its members in the extension. */
export interface Scheme {
  readonly described: object
  readonly settings: object
}

const keyScheme: Scheme = { described: { type: 'apiKey', in: 'header', name: 'Authorization' }, settings: {} }

/** The path of an operation and what it does; as many as an API of middle size has. */
const paths = Object.fromEntries(
  ['items', 'orders', 'customers', 'prices', 'stocks'].flatMap(noun => [
    [`/${noun}`, operations(noun, ['get', 'post'])],
    [`/${noun}/{id}`, operations(`${noun}/{id}`, ['get', 'put', 'delete'])]
  ])
)

function operations(noun: string, methods: readonly string[]): object {
  const responses = { 200: { description: 'done' } }
  return Object.fromEntries(
    methods.map(method => [
      method,
      { operationId: `${noun}${method.toUpperCase()}`, summary: `${method} ${noun}`, responses }
    ])
  )
}

export function apiDocument({ id, listenPath, upstream, access, generation }: ApiOptions): object {
  const scheme = access === 'key' ? keyScheme : access === 'keyless' ? null : access
  const headers = { enabled: true, add: [{ name: 'X-Generation', value: String(generation) }] }
  return {
    openapi: '3.0.3',
    info: { title: id, version: '1' },
    paths,
    ...(scheme === null
      ? {}
      : { components: { securitySchemes: { caller: scheme.described } }, security: [{ caller: [] }] }),
    'x-svc-api-gateway': {
      info: { id, name: id, state: { active: true } },
      upstream: { url: `${upstream}/` },
      server: {
        listenPath: { value: listenPath, strip: true },
        authentication:
          scheme === null
            ? { enabled: false }
            : { enabled: true, securitySchemes: { caller: { enabled: true, ...scheme.settings } } }
      },
      ...(generation === undefined ? {} : { middleware: { global: { transformResponseHeaders: headers } } })
    }
  }
}

/** Writes one file an API. */
export function writeDocuments(folder: string, apis: readonly ApiOptions[]): void {
  mkdirSync(folder, { recursive: true })
  for (const api of apis) writeFileSync(join(folder, `${api.id}.json`), JSON.stringify(apiDocument(api), null, 2))
}
