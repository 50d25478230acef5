import { randomBytes } from 'node:crypto'
import { appendFileSync, mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import type { Test } from 'tap'
import { load } from '../../config/load.ts'
import type { User } from '../../config/shape/user.ts'
import type { Clock, Fields, Log } from '../../config/world.ts'
import { newUser, userWrites } from '../../control/users.ts'
import { assemble, type Gateway } from '../../gateway/assemble.ts'
import { vault } from '../../gateway/vault.ts'
import { described, undescribed } from './description.ts'

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

/** An answer: JSON parsed, anything else as text. */
export interface Told {
  readonly status: number
  readonly body: any
  readonly headers: Headers
}

export interface TestGateway extends Gateway {
  readonly log: ReturnType<typeof collectedLog>
  /** A call of the `/svc` interface: JSON in, status and parsed JSON out. */
  svc(method: string, path: string, body?: unknown, headers?: Record<string, string>): Promise<Told>
  /** A call of the management interface, by the administrator of `default` unless `key` names another user's access key. */
  api(
    method: string,
    path: string,
    body?: unknown,
    given?: { key?: string | null; headers?: Record<string, string> }
  ): Promise<Told>
  /** A call of the admin interface. */
  admin(method: string, path: string, body?: unknown): Promise<Told>
  /** Creates a user; answers its access key. */
  user(given: Partial<User>): Promise<string>
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
  const { gateway: own = {}, management = {}, ...rest } = given.settings ?? {}
  const settings = load({
    file: JSON.stringify({
      storage: { documents: { type: 'memory' } },
      ...rest,
      management: { listen_port: 0, ...management },
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
  const call = async (url: string, method: string, body: unknown, headers: Record<string, string>): Promise<Told> => {
    const plain = typeof body === 'string' || body instanceof Uint8Array || body instanceof FormData
    const type = body instanceof FormData ? {} : { 'Content-Type': 'application/json' }
    const answer = await fetch(url, {
      method,
      headers: { ...type, ...headers },
      ...(body === undefined ? {} : { body: plain ? (body as string) : JSON.stringify(body) })
    })
    const text = await answer.text()
    const parsed = answer.headers.get('content-type')?.includes('json') && text !== '' ? JSON.parse(text) : text
    const { pathname } = new URL(url)
    const fault = undescribed(method, pathname, answer.status, answer.headers.get('content-type') ?? '', parsed)
    if (fault !== null) throw new Error(`an answer is not as described: ${fault}`)
    if (answer.ok) touched(t, method, pathname)
    return { status: answer.status, body: parsed, headers: answer.headers }
  }
  const svc: TestGateway['svc'] = (method, path, body, headers = {}) =>
    call(running.controlUrl + path, method, body, { 'X-Svc-Authorization': SECRET, ...headers })
  const people = vault(SECRET, { bytes: randomBytes })
  const user: TestGateway['user'] = async given => {
    const accessKey = randomBytes(16).toString('hex')
    const id = randomBytes(12).toString('hex')
    const email_address = `${id}@example.com`
    const made = newUser({ active: true, email_address, ...given }, id, new Date().toISOString())
    await running.store.commit(userWrites(made, accessKey, '', people))
    return accessKey
  }
  let administrator: Promise<string> | null = null
  const api: TestGateway['api'] = async (method, path, body, { key, headers = {} } = {}) => {
    const person = () => {
      administrator ??= user({ email_address: 'admin@example.com', first_name: 'Ada', org_id: 'default' })
      return administrator
    }
    const authorization = key === undefined ? await person() : key
    const credential: Record<string, string> = authorization === null ? {} : { Authorization: authorization }
    return call(running.managementUrl + path, method, body, { ...credential, ...headers })
  }
  for (const api of given.apis ?? []) {
    const { status, body } = await svc('POST', '/svc/apis/oas', api)
    if (status !== 200) throw new Error(`the API was refused: ${JSON.stringify(body)}`)
  }
  return {
    ...running,
    log,
    svc,
    api,
    admin: (method, path, body) => call(running.managementUrl + path, method, body, { 'Admin-Auth': SECRET }),
    user,
    get: (path, headers = {}) => fetch(running.url + path, { headers, redirect: 'manual' }),
    async key(body) {
      const answer = await svc('POST', '/svc/keys/create', body)
      if (answer.status !== 200) throw new Error(`the key was refused: ${JSON.stringify(answer.body)}`)
      return answer.body.key
    }
  }
}

/** For `npm run coverage`: which endpoints a test had a success from. */
function touched(t: Test, method: string, path: string): void {
  const file = process.env.SVC_TOUCHES
  const template = file === undefined ? null : described(method, path)
  if (file === undefined || template === null) return
  const line = { file: process.argv[1], test: t.name, endpoint: `${method} ${template}` }
  appendFileSync(file, `${JSON.stringify(line)}\n`)
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
