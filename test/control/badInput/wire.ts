import { Agent, type IncomingHttpHeaders, request } from 'node:http'
import { connect } from 'node:net'
import type { Door } from '../../../control/endpoint.ts'
import type { Kind } from '../../../gateway/store/store.ts'
import { undescribed } from '../../helpers/description.ts'
import { SECRET, type TestGateway } from '../../helpers/gateway.ts'

export interface Reply {
  readonly status: number
  readonly headers: IncomingHttpHeaders
  readonly text: string
}

export type Headers = Record<string, string | readonly string[]>

/** One call: a row of the table, or what else is at a door. */
export interface Sending {
  readonly method: string
  readonly door: Door
  readonly path: string
  readonly body?: string | Buffer | null
  readonly headers?: Headers
}

export interface Wire {
  /** With the door's right credential, unless `headers` say another. @throws Error when no answer comes */
  send(sending: Sending): Promise<Reply>
  /** Everything that comes back for these bytes, until the connection ends. */
  raw(door: Door, parts: readonly (string | Buffer)[]): Promise<string>
  /** The header line of the door's right credential. */
  credential(door: Door): string
  close(): void
}

/** Longer than any answer takes, so that one that never comes is told. */
const MOST_MS = 20_000

/** @param accessKey of an administrator */
export function wire(gw: TestGateway, accessKey: string): Wire {
  const agent = new Agent({ keepAlive: true, maxSockets: 4 })
  const own: Record<Door, Headers> = {
    gateway: { 'X-Svc-Authorization': SECRET },
    management: { Authorization: accessKey },
    portal: { Authorization: accessKey },
    admin: { 'Admin-Auth': SECRET },
    open: {}
  }
  const place = (door: Door) => new URL(door === 'gateway' ? gw.controlUrl : gw.managementUrl!)
  const once = ({ method, door, path, body = null, headers = {} }: Sending) =>
    new Promise<Reply>((resolve, reject) => {
      const { hostname, port } = place(door)
      // Told always, or Node would send DELETE with chunks.
      const length: Headers = body === null ? {} : { 'Content-Length': String(Buffer.byteLength(body)) }
      const all = { ...length, ...own[door], ...headers } as Record<string, string>
      const req = request({ hostname, port, method, path, headers: all, agent, timeout: MOST_MS }, res => {
        const chunks: Buffer[] = []
        res.on('data', chunk => chunks.push(chunk))
        res.on('error', reject)
        res.on('end', () =>
          resolve({ status: res.statusCode!, headers: res.headers, text: Buffer.concat(chunks).toString() })
        )
      })
      req.on('timeout', () => req.destroy(new Error('no answer')))
      req.on('error', cause => reject(Object.assign(cause, { reused: req.reusedSocket })))
      req.end(body ?? undefined)
    })
  return {
    async send(sending) {
      try {
        return await once(sending)
      } catch (cause) {
        // The server may have ended a connection that idled just as it was used again.
        if ((cause as { reused?: boolean }).reused !== true) throw cause
        return once(sending)
      }
    },
    raw: (door, parts) =>
      new Promise((resolve, reject) => {
        const { hostname, port } = place(door)
        let got = ''
        const socket = connect(Number(port), hostname, () => {
          for (const part of parts) socket.write(part)
        })
        socket.setTimeout(MOST_MS, () => socket.destroy(new Error('no answer')))
        socket.on('data', chunk => {
          got += chunk
        })
        // A server that has answered need not read on.
        socket.on('error', cause => (got === '' ? reject(cause) : resolve(got)))
        socket.on('close', () => resolve(got))
      }),
    credential: door =>
      Object.entries(own[door])
        .map(([name, value]) => `${name}: ${value}\r\n`)
        .join(''),
    close: () => agent.destroy()
  }
}

/** What only the inside of the program says. */
const INSIDE =
  /\bat [^"]*\.ts|node_modules|file:\/\/|\/work\/|\/tmp\/|\/root\/|\/home\/|SELECT |INSERT |UPDATE svc|SQLITE|sqlite|(?:Type|Range|Reference|Syntax)Error|Cannot (?:read|convert|destructure|set)|is not (?:a function|iterable|defined)|call stack|\[object |ERR_[A-Z]|ENOENT|Unexpected token/

/** Segments that are resolved, however they are written. */
const DOTS = /(?:\/|%2f)(?:\.|%2e){1,2}(?:\/|%2f|$)/i

/** A refusal needs no more, however much was wrong. */
const LONGEST_REFUSAL = 300_000

/** What is wrong with an answer; null: nothing. */
export function wrong({ method, door, path }: Pick<Sending, 'method' | 'door' | 'path'>, reply: Reply): string | null {
  const { status, headers, text } = reply
  const type = headers['content-type'] ?? ''
  if (status >= 500) return `status ${status}`
  // Dots are resolved before anything else: another row answers, or another surface.
  const leadsElsewhere = DOTS.test(path)
  if (status < 400 && leadsElsewhere) return null
  if (status < 400) return undescribed(method, pathOf(path), status, type, parsed(text, type))
  if (type !== 'application/json') return `content type ${type}`
  const inside = INSIDE.exec(text)
  if (inside !== null) return `tells ${JSON.stringify(inside[0])}`
  if (text.length > LONGEST_REFUSAL) return `refuses with ${text.length} bytes`
  const body = JSON.parse(text)
  if (leadsElsewhere) return null
  if (!isErrorOf(door, body)) return 'is not the error of its surface'
  return undescribed(method, pathOf(path), status, type, body)
}

function isErrorOf(door: Door, body: any): boolean {
  const isText = (text: unknown) => typeof text === 'string' && text !== ''
  if (door === 'gateway') return body.status === 'error' && isText(body.message)
  if (door === 'portal') return Array.isArray(body.errors) && body.errors.length > 0 && body.errors.every(isText)
  return body.Status === 'Error' && isText(body.Message) && body.Meta === null
}

function pathOf(path: string): string {
  return path.split('?', 1)[0]!
}

function parsed(text: string, type: string): unknown {
  return /json/.test(type) && text !== '' ? JSON.parse(text) : text
}

/** Kinds of document that the table's rows write for their callers. */
export const kept: readonly Kind[] = [
  'key',
  'policy',
  'api',
  'organisation',
  'asset',
  'user',
  'group',
  'access',
  'name',
  'certificate',
  'hook',
  'revision',
  'portal_organisation',
  'portal_user'
]

/** Every document with its state, for a comparison of before and after. */
export async function everything({ store }: TestGateway): Promise<readonly string[]> {
  const all: string[] = []
  for (const kind of kept)
    for await (const documents of store.each(kind, {}))
      for (const { id, rev, sequence } of documents) all.push(`${kind} ${id} ${rev} ${sequence}`)
  return all.sort()
}
