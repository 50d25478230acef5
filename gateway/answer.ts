import type { Exchange } from './exchange.ts'
import type { Refusal } from './refusals.ts'

/** Answers by the gateway itself, through the route's heads. `body` null: none. */
export function answer(x: Exchange, status: number, pairs: string[], body: Buffer | null): void {
  const { res } = x
  if (body !== null) pairs.push('Content-Length', String(body.length))
  // Else Node would announce chunks for nothing.
  else if (status !== 204 && status !== 304 && x.method !== 'HEAD') pairs.push('Content-Length', '0')
  const { heads } = x.route
  for (let i = 0; i < heads.length; i++) heads[i]!(x, status, pairs)
  unread(x)
  res.writeHead(status, pairs)
  if (body === null || x.method === 'HEAD') return void res.end()
  x.bytes = body.length
  res.end(body)
}

export function answerJson(x: Exchange, status: number, value: unknown): void {
  answer(x, status, ['Content-Type', 'application/json'], Buffer.from(JSON.stringify(value)))
}

/** Writes a refusal; once the head of an answer has left, the connection is cut instead. */
export function refuse(x: Exchange, refusal: Refusal): void {
  const { res } = x
  x.refusal = refusal
  if (x.gone || res.writableEnded) return
  if (res.headersSent) return res.cutOff()
  const xml = isXml(x.header('content-type'))
  const pairs = ['Content-Type', xml ? 'application/xml' : 'application/json', 'x-svc-error', refusal.code]
  for (let i = 0; i < refusal.pairs.length; i++) pairs.push(refusal.pairs[i]!)
  answer(x, refusal.status, pairs, xml ? refusal.xml : refusal.json)
}

/** A small rest of a body is read and the connection goes on; a long or unknown one is not worth it. */
const WORTH_READING = 65_536

function unread(x: Exchange): void {
  if (x.bodyLength === 0 || x.req.readableEnded) return
  if (x.bodyLength < 0 || x.bodyLength > WORTH_READING || x.expects) x.res.linger()
}

function isXml(contentType: string | null): boolean {
  return contentType !== null && /^(?:(?:application|text)\/xml|application\/soap\+xml)\s*(?:;|$)/i.test(contentType)
}
