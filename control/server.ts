import type { IncomingMessage, ServerResponse } from 'node:http'
import { Readable } from 'node:stream'
import { pipeline } from 'node:stream/promises'
import { setImmediate as nextTurn } from 'node:timers/promises'
import { compile, Invalid } from '../config/validate.ts'
import type { Clock } from '../config/world.ts'
import { parseJson } from '../config/yaml.ts'
import { Full, Unavailable } from '../gateway/store/store.ts'
import type { Caller } from './caller.ts'
import { doorOf, doors, type Surface } from './doors.ts'
import { Answer, type Call, type Endpoint, etag, Refused, Streamed, toldFaults } from './endpoint.ts'
import { MASK } from './mask.ts'
import { denial, type Intent } from './permissions.ts'
import { type Called, Recorder } from './record.ts'
import type { ControlTools } from './tools.ts'
import { readYaml } from './yaml.ts'

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

/** What a listener mounts: answers every request of its doors. */
export type Control = (
  req: IncomingMessage,
  res: ServerResponse & { linger?: () => void },
  path: string,
  query: string,
  /** The client's address, a trusted proxy's word included. */
  address: string
) => void

/** How long a body may take to arrive at most, milliseconds; `read_timeout` may be shorter. */
const BODY_MS = 30_000

/** What a body is held to. */
interface Bounds {
  readonly mostBytes: number
  readonly ms: number
  readonly clock: Clock
}

/** The endpoint table as HTTP: door, permission, parse, handle, audit, answer, in this order for every endpoint. */
export function control(table: readonly Endpoint[], tools: ControlTools): Control {
  const surfaces = doors(tools)
  const rows = table.map(row).sort(byPlainness)
  const onlyDoor = table.every(({ door }) => door === 'gateway') ? 'gateway' : null
  const { gateway, management } = tools.settings
  const bounds: Bounds = {
    mostBytes: management.max_body_size,
    ms: Math.min(BODY_MS, gateway.http_server_options.read_timeout * 1000),
    clock: tools.clock
  }

  async function serve(...[req, res, path, query, address]: Parameters<Control>): Promise<void> {
    // What answers GET answers HEAD (RFC 9110 §9.1); Node keeps the body back.
    const method = req.method === 'HEAD' ? 'GET' : (req.method ?? '')
    const sought = find(rows, method, path)
    const door = sought.row?.endpoint.door ?? onlyDoor ?? doorOf(path)
    const surface = surfaces[door]
    let recorder: Recorder | null = null
    let answer: Answer
    try {
      const caller = await surface.enter(req, address)
      if (sought.row === null) throw sought.refused
      const { endpoint } = sought.row
      const intent = endpoint.intent ?? intentOf(method)
      const { status = 200, summary } = endpoint
      const call: Called = { caller, action: summary, method, url: path + query, status }
      if (intent !== 'read' && tools.audit !== null) recorder = new Recorder(tools.audit, tools, call)
      allowed(endpoint, caller, path, intent)
      if (endpoint.bodyForm !== 'none' && req.headers.expect !== undefined) res.writeContinue()
      const given = await read(sought, req, res, query, bounds, caller, recorder)
      const value = await endpoint.handle(given, recorder === null ? tools : { ...tools, store: recorder.store })
      answer = value instanceof Answer ? value : new Answer(endpoint.status ?? 200, value)
      if (answer.body instanceof Streamed) await answer.body.begin()
    } catch (cause) {
      answer = told(cause, surface, tools)
    }
    try {
      await recorder?.end(answer.status, open(answer, sought.row?.endpoint.hides))
    } catch (cause) {
      // What was written stays written; but nobody is told of a success that no record tells.
      if (answer.status < 400) answer = told(cause, surface, tools)
    }
    await write(res, answer)
  }

  return (...call) => {
    // What fails even while a failure is told ends this call alone.
    serve(...call).catch(cause => {
      tools.log.error('fault', { cause: String(cause) })
      call[1].destroy()
    })
  }
}

function intentOf(method: string): Intent {
  return method === 'GET' ? 'read' : method === 'DELETE' ? 'delete' : 'write'
}

/** @throws Refused 403 */
function allowed(endpoint: Endpoint, { user }: Caller, path: string, intent: Intent): void {
  const { door, anyUser } = endpoint
  if (user === null || anyUser) return
  // Portal: whoever may come in at all may write (`outside.md` §3).
  const no = denial(user.permissions, path, door === 'portal' ? 'write' : intent, endpoint.path)
  if (no !== null) throw new Refused(403, no)
}

/** What an audit record may hold of an answer. */
function open({ status, body }: Answer, hides: readonly string[] = []): unknown {
  if (status >= 400 || hides.length === 0) return body
  return { ...(body as object), ...Object.fromEntries(hides.map(name => [name, MASK])) }
}

function told(cause: unknown, surface: Surface, tools: ControlTools): Answer {
  const { status, message, more, headers } = refusal(cause, tools)
  return new Answer(status, surface.error(message, more), headers)
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

/** What no row answers: 405 where another method is known, else 404. */
interface Nothing {
  readonly row: null
  readonly refused: Refused
}

function find(rows: readonly Row[], method: string, path: string): Found | Nothing {
  const segments = (path.length > 1 && path.endsWith('/') ? path.slice(0, -1) : path).split('/').slice(1)
  const methods: string[] = []
  for (const row of rows) {
    if (row.segments.length !== segments.length) continue
    if (!row.segments.every((segment, i) => segment === null || segment === segments[i])) continue
    if (row.endpoint.method !== method) {
      methods.push(row.endpoint.method)
      continue
    }
    const values = segments.filter((_, i) => row.segments[i] === null).map(decoded)
    if (values.includes(null)) return { row: null, refused: new Refused(400, 'the path is not percent-encoded UTF-8') }
    const params: Record<string, string> = Object.create(null)
    for (const [i, name] of row.names.entries()) params[name] = values[i]!
    return { row, params }
  }
  if (methods.length === 0) return { row: null, refused: new Refused(404, 'Not Found') }
  return { row: null, refused: new Refused(405, 'Method not supported', { headers: { Allow: allow(methods) } }) }
}

/** Who spells a segment out comes before who has a parameter there, from the left: the first row that fits is the one. */
function byPlainness(a: Row, b: Row): number {
  // Only rows of one length can fit one path; compared with others, the order would not be one.
  if (a.segments.length !== b.segments.length) return a.segments.length - b.segments.length
  for (let i = 0; i < a.segments.length; i++) {
    const [one, other] = [a.segments[i] === null, b.segments[i] === null]
    if (one !== other) return one ? 1 : -1
  }
  return 0
}

function allow(methods: readonly string[]): string {
  return [...new Set(methods.flatMap(method => (method === 'GET' ? ['GET', 'HEAD'] : [method])))].join(', ')
}

function decoded(segment: string): string | null {
  try {
    return decodeURIComponent(segment)
  } catch {
    return null
  }
}

async function read(
  { row, params }: Found,
  req: IncomingMessage,
  res: ServerResponse,
  query: string,
  bounds: Bounds,
  caller: Caller,
  recorder: Recorder | null
): Promise<Call<never, never, never>> {
  const { bodyForm, door, malformed } = row.endpoint
  const contentHeader = req.headers['content-type'] ?? ''
  const contentType = contentHeader.split(';', 1)[0]!.trim().toLowerCase()
  const asked: Record<string, string> = Object.create(null)
  for (const [name, value] of new URLSearchParams(query)) if (asks(row.endpoint, name, value)) asked[name] ??= value
  const ifMatch = req.headers['if-match']
  const call = {
    params: shaped(row.params, { ...params }, 'the path is not valid', true),
    query: shaped(row.query, { ...asked }, 'the query is not valid', true),
    body: undefined as unknown,
    contentHeader,
    contentType,
    accept: req.headers.accept ?? '',
    caller,
    matched: (rev: number) => matched(ifMatch, rev),
    changed: (before: unknown, after: unknown) => recorder?.changed(before, after)
  }
  if (bodyForm !== 'none') {
    if ((req.headers['content-encoding'] ?? 'identity').toLowerCase() !== 'identity')
      throw new Refused(415, 'Compressed bodies are not supported: send it without Content-Encoding')
    const bytes = await collect(req, res, bounds)
    const tellsMore = door === 'gateway'
    const common = door === 'management' || door === 'admin' ? EMPTY : malformed
    if (bytes.length === 0 && !tellsMore) throw new Refused(400, row.endpoint.empty ?? common)
    const given = bodyForm === 'bytes' ? bytes : await parsed(bytes, row.endpoint, contentType)
    recorder?.asked(given)
    call.body = shaped(row.body, given, row.endpoint.invalid ?? malformed, tellsMore)
  }
  return call as Call<never, never, never>
}

/**
 * The gateway interface takes only what it knows. Elsewhere forms send fields that nobody filled in, and readers bring
 * parameters of their own (against caches, of other versions): as if they were not there. What writes is refused an
 * option that it does not know.
 */
function asks({ door, method, query }: Endpoint, name: string, value: string): boolean {
  if (door === 'gateway') return true
  const known = Object.hasOwn((query as { properties?: object }).properties ?? {}, name)
  return value === '' ? !known && method !== 'GET' : known || method !== 'GET'
}

/** Semantics §1.0. */
const EMPTY = 'Failed to read response body, body empty'

/** Bytes whose reading takes some 10 ms. */
const LARGE = 100_000

/** @throws Refused 400; of YAML also 413 and 503 */
async function parsed(bytes: Buffer, { bodyForm, malformed }: Endpoint, contentType: string): Promise<unknown> {
  let text: string
  try {
    text = new TextDecoder('utf-8', { fatal: true }).decode(bytes)
  } catch {
    throw new Refused(400, malformed, { more: { faults: [{ pointer: '', message: 'the body is not UTF-8' }] } })
  }
  // A document comes back as it was given; what is computed with must be a double.
  const integers = bodyForm === 'document' ? 'exact' : 'doubles'
  try {
    const isYaml = bodyForm === 'document' && /yaml/.test(contentType)
    const value = isYaml ? await readYaml(text, integers) : parseJson(text, integers)
    // What is made of a large one takes as long again: requests get their turn in between.
    if (bytes.length > LARGE) await nextTurn()
    return value
  } catch (cause) {
    if (!(cause instanceof Invalid)) throw cause
    throw new Refused(400, malformed, { more: { faults: toldFaults(cause.faults) } })
  }
}

/** @throws Refused 412 (RFC 9110 §13.1.1) */
function matched(ifMatch: string | undefined, rev: number): number {
  if (ifMatch === undefined || ifMatch.trim() === '*') return rev
  if (ifMatch.split(',').some(tag => tag.trim() === `"${rev}"` || tag.trim() === String(rev))) return rev
  throw new Refused(412, `The document is at revision ${rev} by now: read it again`, { headers: etag(rev) })
}

/** @param tellsMore the message names the faults as well */
function shaped(check: (input: unknown) => unknown, value: unknown, what: string, tellsMore: boolean): unknown {
  try {
    return check(value)
  } catch (cause) {
    if (!(cause instanceof Invalid)) throw cause
    throw new Refused(400, tellsMore ? `${what}: ${cause.message}`.slice(0, 2000) : what, {
      more: { faults: toldFaults(cause.faults.slice(0, 100)) }
    })
  }
}

/** @throws Refused 413 above `mostBytes`, 408 when it does not arrive in time, 400 when it breaks off */
function collect(req: IncomingMessage, res: ServerResponse, { mostBytes, ms, clock }: Bounds): Promise<Buffer> {
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
    req.on('end', () => end(() => resolve(Buffer.concat(chunks))))
    const broken = () => end(() => reject(new Refused(400, 'the body broke off')))
    req.on('close', broken)
    req.on('error', broken)
    // Where the server has answered nonsense in a body by itself, the request never closes.
    res.on('close', broken)
  })
}

function refusal(cause: unknown, { log }: ControlTools): Refused {
  if (cause instanceof Refused) return cause
  if (cause instanceof Full)
    return new Refused(507, 'The store has no room left: nothing was written. It works again once there is room')
  if (cause instanceof Unavailable)
    return new Refused(503, 'Service temporarily unavailable', { headers: { 'Retry-After': '1' } })
  log.error('fault', {
    cause: cause instanceof Error ? cause.message : String(cause),
    stack: cause instanceof Error ? cause.stack : undefined
  })
  return new Refused(500, 'Internal error')
}

async function write(res: Parameters<Control>[1], { status, body, headers }: Answer): Promise<void> {
  if (res.headersSent || res.destroyed) return body instanceof Streamed ? body.end() : undefined
  // A refusal may come before the whole body: what is left of it is not read for long.
  if (
    !res.req.readableEnded &&
    res.req.headers['content-length'] !== '0' &&
    (res.req.headers['content-length'] !== undefined || res.req.headers['transfer-encoding'] !== undefined)
  )
    res.linger?.()
  const common = { 'Content-Type': 'application/json', 'Cache-Control': 'no-store', ...headers }
  if (body instanceof Streamed) {
    res.writeHead(status, common)
    if (res.req.method === 'HEAD') {
      res.end()
      return body.end()
    }
    return pipeline(Readable.from(body.rest()), res)
  }
  const asIs = typeof body === 'string' || Buffer.isBuffer(body)
  const bytes = Buffer.isBuffer(body) ? body : Buffer.from(asIs ? (body as string) : JSON.stringify(body ?? null))
  res.writeHead(status, { ...common, 'Content-Length': bytes.length })
  res.end(bytes)
}
