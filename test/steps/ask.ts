import type { IncomingMessage, ServerResponse } from 'node:http'
import { type Agent, type IncomingHttpHeaders, request } from 'node:http'
import type { Line, TestGateway } from '../helpers/gateway.ts'

export interface Asked {
  readonly method?: string
  /** Any, `Host` too. As a list: pairs, sent as they are, with a `Host` of their own. */
  readonly headers?: Record<string, string | string[]> | readonly string[]
  readonly body?: string | Buffer
  readonly agent?: Agent
}

export interface Answered {
  readonly status: number
  readonly headers: IncomingHttpHeaders
  /** Pairs as they came. */
  readonly raw: readonly string[]
  readonly text: string
  readonly json: any
}

/** One request exactly as written: no client tidies its path or its headers. */
export function ask(gw: { readonly url: string }, path: string, given: Asked = {}): Promise<Answered> {
  const { hostname, port } = new URL(gw.url)
  const { method = 'GET', body, agent } = given
  const headers = given.headers === undefined ? {} : isPairs(given.headers) ? [...given.headers] : given.headers
  return new Promise((resolve, reject) => {
    const req = request({ hostname, port, path, method, headers, ...(agent === undefined ? {} : { agent }) }, res => {
      const chunks: Buffer[] = []
      res.on('data', (chunk: Buffer) => chunks.push(chunk))
      res.on('error', reject)
      res.on('end', () => {
        const text = Buffer.concat(chunks).toString()
        const isJson = res.headers['content-type'] === 'application/json'
        resolve({
          status: res.statusCode!,
          headers: res.headers,
          raw: res.rawHeaders,
          text,
          json: isJson && text !== '' ? JSON.parse(text) : null
        })
      })
    })
    req.on('error', reject)
    req.end(body)
  })
}

function isPairs(headers: NonNullable<Asked['headers']>): headers is readonly string[] {
  return Array.isArray(headers)
}

/** What an upstream got, as JSON: `{ method, url, headers, body }`, headers as raw pairs. */
export function tell(req: IncomingMessage, res: ServerResponse): void {
  const chunks: Buffer[] = []
  req.on('data', (chunk: Buffer) => chunks.push(chunk))
  req.on('end', () => {
    const { method, url, rawHeaders: headers } = req
    res.setHeader('Content-Type', 'application/json')
    res.end(JSON.stringify({ method, url, headers, body: Buffer.concat(chunks).toString() }))
  })
}

/** The events of requests in the log, in order; those of the names given, or all. */
export function eventsOf(gw: TestGateway, ...names: string[]): Line[] {
  return gw.log.lines.filter(
    ({ msg, event }) =>
      msg === 'event' && (names.length === 0 ? !String(event).startsWith('Token') : names.includes(String(event)))
  )
}

/** All values of a name in raw pairs. */
export function valuesOf(pairs: readonly string[], name: string): string[] {
  return pairs.filter((_, i) => i % 2 === 1 && pairs[i - 1]!.toLowerCase() === name.toLowerCase())
}
