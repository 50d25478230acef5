import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import type { Test } from 'tap'
import { load } from '../../config/load.ts'
import type { Clock, Fields, Log } from '../../config/world.ts'
import { assemble, type Gateway } from '../../gateway/assemble.ts'

export const SECRET = 'a secret of the tests'

/** What was logged, line by line. */
export interface Line extends Fields {
  readonly level: string
  readonly msg: string
}

export function collectedLog(): Log & { readonly lines: Line[] } {
  const lines: Line[] = []
  const take = (level: string) => (msg: string, fields?: Fields) => void lines.push({ ...fields, level, msg })
  return { lines, debug: take('debug'), info: take('info'), warn: take('warn'), error: take('error') }
}

export interface TestGateway extends Gateway {
  readonly log: ReturnType<typeof collectedLog>
  /** A call of the `/svc` interface: JSON in, status and parsed JSON out. */
  svc(
    method: string,
    path: string,
    body?: unknown,
    headers?: Record<string, string>
  ): Promise<{ status: number; body: any; headers: Headers }>
  /** A request to an API. */
  get(path: string, headers?: Record<string, string>): Promise<Response>
  /** Creates a key and returns it. */
  key(body: Record<string, unknown>): Promise<string>
}

/** A gateway of its own on port 0 with an empty store in memory; it closes with the test. */
export async function gateway(
  t: Test,
  given: { settings?: Record<string, any>; apis?: readonly unknown[]; clock?: Clock } = {}
): Promise<TestGateway> {
  const folder = mkdtempSync(join(tmpdir(), 'svc-test-'))
  const { gateway: own = {}, ...rest } = given.settings ?? {}
  const settings = load({
    file: JSON.stringify({
      storage: { documents: { type: 'memory' } },
      ...rest,
      gateway: {
        listen_address: '127.0.0.1',
        listen_port: 0,
        secret: SECRET,
        access_logs: { enabled: false },
        graceful_shutdown_timeout_duration: 0.2,
        ...own
      }
    }),
    env: {}
  })
  const log = collectedLog()
  const running = await assemble({
    settings,
    log,
    sample: false,
    ...(given.clock === undefined ? {} : { clock: given.clock })
  })
  t.teardown(async () => {
    await running.stop()
    rmSync(folder, { recursive: true, force: true })
  })
  const svc: TestGateway['svc'] = async (method, path, body, headers = {}) => {
    const answer = await fetch(running.url + path, {
      method,
      headers: { 'X-Svc-Authorization': SECRET, 'Content-Type': 'application/json', ...headers },
      ...(body === undefined ? {} : { body: typeof body === 'string' ? body : JSON.stringify(body) })
    })
    const text = await answer.text()
    return {
      status: answer.status,
      body: answer.headers.get('content-type')?.includes('json') ? JSON.parse(text) : text,
      headers: answer.headers
    }
  }
  for (const api of given.apis ?? []) {
    const { status, body } = await svc('POST', '/svc/apis/oas', api)
    if (status !== 200) throw new Error(`the API was refused: ${JSON.stringify(body)}`)
  }
  return {
    ...running,
    log,
    svc,
    get: (path, headers = {}) => fetch(running.url + path, { headers, redirect: 'manual' }),
    async key(body) {
      const answer = await svc('POST', '/svc/keys/create', body)
      if (answer.status !== 200) throw new Error(`the key was refused: ${JSON.stringify(answer.body)}`)
      return answer.body.key
    }
  }
}

/** A small document: `extension` is laid over the usual members, section by section. */
export function api(
  id: string,
  upstream: string,
  extension: { server?: object; upstream?: object; middleware?: object; info?: object } = {},
  paths: object = {}
): Record<string, unknown> {
  return {
    openapi: '3.0.3',
    info: { title: id, version: '1' },
    paths,
    components: { securitySchemes: { key: { type: 'apiKey', in: 'header', name: 'Authorization' } } },
    'x-svc-api-gateway': {
      info: { id, name: id, state: { active: true }, ...extension.info },
      upstream: { ...(upstream === '' ? {} : { url: upstream }), ...extension.upstream },
      server: { listenPath: { value: `/${id}/`, strip: true }, ...extension.server },
      ...(extension.middleware === undefined ? {} : { middleware: extension.middleware })
    }
  }
}

/** Key authentication by the document's scheme `key`. */
export const withKey = { authentication: { enabled: true, securitySchemes: { key: { enabled: true } } } }

/** Access rights to APIs by id. */
export function rights(...ids: string[]): { access_rights: Record<string, unknown> } {
  return { access_rights: Object.fromEntries(ids.map(id => [id, { api_id: id, api_name: id, versions: ['Default'] }])) }
}
