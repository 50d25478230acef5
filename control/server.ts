import type { IncomingMessage, ServerResponse } from 'node:http'
import { compile, Invalid } from '../config/validate.ts'
import type { Clock } from '../config/world.ts'
import { parseJson, parseYaml } from '../config/yaml.ts'
import { Unavailable } from '../gateway/store/store.ts'
import { doors } from './doors.ts'
import { Answer, type Call, type Endpoint, Refused, toldFaults } from './endpoint.ts'
import type { ControlTools } from './tools.ts'

/** A row of the table, ready to be called. */
interface Row {
  readonly endpoint: Endpoint
  /** Segments; null for a parameter. */
  readonly segments: readonly (string | null)[]
  readonly names: readonly string[]
  readonly params: (input: unknown) => unknown
  readonly query: (input: unknown) => unknown
  readonly body: (input: unknown) => unknown
}

/** What a listener mounts: answers every request below the surface's prefix. */
export type Control = (
  req: IncomingMessage,
  res: ServerResponse & { linger?: () => void },
  path: string,
  query: string
) => void

/** How long a body may take to arrive at most, milliseconds; `read_timeout` may be shorter. */
const BODY_MS = 30_000

/** What a body is held to. */
interface Bounds {
  readonly mostBytes: number
  readonly ms: number
  readonly clock: Clock
}

/** The endpoint table as HTTP: door, parse, handle, answer, in this order for every endpoint. */
export function control(table: readonly Endpoint[], tools: ControlTools): Control {
  const surfaces = doors(tools.settings.gateway.secret)
  const rows = table.map(row)
  const { gateway, management } = tools.settings
  const bounds: Bounds = {
    mostBytes: management.max_body_size,
    ms: Math.min(BODY_MS, gateway.http_server_options.read_timeout * 1000),
    clock: tools.clock
  }

  async function serve(req: IncomingMessage, res: Parameters<Control>[1], path: string, query: string): Promise<void> {
    const surface = surfaces.gateway
    try {
      const shut = surface.enter(req)
      if (shut !== null) throw new Refused(shut.status, shut.message)
      // What answers GET answers HEAD (RFC 9110 §9.1); Node keeps the body back.
      const found = find(rows, req.method === 'HEAD' ? 'GET' : (req.method ?? ''), path)
      if (found.row.endpoint.bodyForm !== 'none' && req.headers.expect !== undefined) res.writeContinue()
      const value = await found.row.endpoint.handle(await read(found, req, res, query, bounds), tools)
      write(res, value instanceof Answer ? value : new Answer(200, value))
    } catch (cause) {
      const { status, message, more, headers } = refusal(cause, tools)
      write(res, new Answer(status, surface.error(message, more), headers))
    }
  }

  return (req, res, path, query) => {
    // What fails even while a failure is told ends this call alone.
    serve(req, res, path, query).catch(cause => {
      tools.log.error('fault', { cause: String(cause) })
      res.destroy()
    })
  }
}

function row(endpoint: Endpoint): Row {
  const segments = endpoint.path.split('/').slice(1)
  return {
    endpoint,
    segments: segments.map(segment => (segment.startsWith('{') ? null : segment)),
    names: segments.filter(segment => segment.startsWith('{')).map(segment => segment.slice(1, -1)),
    params: compile(endpoint.params),
    query: compile(endpoint.query),
    body: compile(endpoint.body)
  }
}

interface Found {
  readonly row: Row
  readonly params: Record<string, string>
}

/** @throws Refused 404, or 405 where another method is known */
function find(rows: readonly Row[], method: string, path: string): Found {
  const segments = (path.length > 1 && path.endsWith('/') ? path.slice(0, -1) : path).split('/').slice(1)
  const allowed: string[] = []
  let best: Found | null = null
  for (const candidate of rows) {
    if (candidate.segments.length !== segments.length) continue
    const values: string[] = []
    if (
      !candidate.segments.every(
        (segment, i) => segment === segments[i] || (segment === null && values.push(decoded(segments[i]!)) > 0)
      )
    )
      continue
    if (candidate.endpoint.method !== method) {
      allowed.push(candidate.endpoint.method)
      continue
    }
    // A row that spells the path out wins over one with a parameter in its place.
    if (best !== null && best.row.names.length <= candidate.names.length) continue
    const params: Record<string, string> = Object.create(null)
    candidate.names.forEach((name, i) => {
      params[name] = values[i]!
    })
    best = { row: candidate, params }
  }
  if (best !== null) return best
  if (allowed.length > 0) throw new Refused(405, 'Method not supported', { headers: { Allow: allow(allowed) } })
  throw new Refused(404, 'Not Found')
}

function allow(methods: readonly string[]): string {
  return [...new Set(methods.flatMap(method => (method === 'GET' ? ['GET', 'HEAD'] : [method])))].join(', ')
}

function decoded(segment: string): string {
  try {
    return decodeURIComponent(segment)
  } catch {
    throw new Refused(400, 'the path is not percent-encoded UTF-8')
  }
}

async function read(
  { row, params }: Found,
  req: IncomingMessage,
  res: ServerResponse,
  query: string,
  bounds: Bounds
): Promise<Call<never, never, never>> {
  const { bodyForm, malformed } = row.endpoint
  const contentType = (req.headers['content-type'] ?? '').split(';', 1)[0]!.trim().toLowerCase()
  const asked: Record<string, string> = Object.create(null)
  for (const [name, value] of new URLSearchParams(query)) asked[name] ??= value
  const call = {
    params: shaped(row.params, { ...params }, 'the path'),
    query: shaped(row.query, { ...asked }, 'the query'),
    body: undefined as unknown,
    contentType,
    accept: req.headers.accept ?? ''
  }
  if (bodyForm !== 'none') {
    const text = await collect(req, res, bounds)
    const yaml = bodyForm === 'document' && /yaml/.test(contentType)
    // A document comes back as it was given; what is computed with must be a double.
    const integers = bodyForm === 'document' ? 'exact' : 'doubles'
    let value: unknown
    try {
      value = yaml ? parseYaml(text, integers) : parseJson(text, integers)
    } catch (cause) {
      if (!(cause instanceof Invalid)) throw cause
      throw new Refused(400, malformed, { more: { faults: toldFaults(cause.faults) } })
    }
    call.body = shaped(row.body, value, malformed)
  }
  return call as Call<never, never, never>
}

function shaped(check: (input: unknown) => unknown, value: unknown, what: string): unknown {
  try {
    return check(value)
  } catch (cause) {
    if (!(cause instanceof Invalid)) throw cause
    throw new Refused(
      400,
      what.startsWith('the ') ? `${what} is not valid: ${cause.message}` : `${what}: ${cause.message}`.slice(0, 2000),
      { more: { faults: toldFaults(cause.faults.slice(0, 100)) } }
    )
  }
}

/** @throws Refused 413 above `mostBytes`, 408 when it does not arrive in time, 400 when it is not UTF-8 */
function collect(req: IncomingMessage, res: ServerResponse, { mostBytes, ms, clock }: Bounds): Promise<string> {
  return new Promise((resolve, reject) => {
    if (Number(req.headers['content-length'] ?? 0) > mostBytes)
      return reject(new Refused(413, 'Request Entity Too Large'))
    const chunks: Buffer[] = []
    let size = 0
    const cancel = clock.after(ms, () => reject(new Refused(408, 'Request body was not received in time')))
    const end = (run: () => void) => {
      cancel()
      run()
    }
    req.on('data', (chunk: Buffer) => {
      size += chunk.length
      if (size > mostBytes) {
        chunks.length = 0
        end(() => reject(new Refused(413, 'Request Entity Too Large')))
      } else chunks.push(chunk)
    })
    req.on('end', () =>
      end(() => {
        try {
          resolve(new TextDecoder('utf-8', { fatal: true }).decode(Buffer.concat(chunks)))
        } catch {
          reject(new Refused(400, 'the body is not UTF-8'))
        }
      })
    )
    const broken = () => end(() => reject(new Refused(400, 'the body broke off')))
    req.on('close', broken)
    req.on('error', broken)
    // Where the server has answered nonsense in a body by itself, the request never closes.
    res.on('close', broken)
  })
}

function refusal(cause: unknown, { log }: ControlTools): Refused {
  if (cause instanceof Refused) return cause
  if (cause instanceof Unavailable)
    return new Refused(503, 'Service temporarily unavailable', { headers: { 'Retry-After': '1' } })
  log.error('fault', {
    cause: cause instanceof Error ? cause.message : String(cause),
    stack: cause instanceof Error ? cause.stack : undefined
  })
  return new Refused(500, 'Internal error')
}

function write(res: Parameters<Control>[1], { status, body, headers }: Answer): void {
  if (res.headersSent || res.destroyed) return
  const asIs = typeof body === 'string' || Buffer.isBuffer(body)
  const bytes = Buffer.isBuffer(body) ? body : Buffer.from(asIs ? (body as string) : JSON.stringify(body ?? null))
  // A refusal may come before the whole body: what is left of it is not read for long.
  if (
    !res.req.readableEnded &&
    res.req.headers['content-length'] !== '0' &&
    (res.req.headers['content-length'] !== undefined || res.req.headers['transfer-encoding'] !== undefined)
  )
    res.linger?.()
  res.writeHead(status, { 'Content-Type': 'application/json', ...headers, 'Content-Length': bytes.length })
  res.end(bytes)
}
