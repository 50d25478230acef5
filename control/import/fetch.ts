import { lookup as resolveName } from 'node:dns'
import { type BlockList, isIP, type LookupFunction } from 'node:net'
import type { Readable } from 'node:stream'
import { createBrotliDecompress, createGunzip, createInflate } from 'node:zlib'
import { Agent, request } from 'undici'
import type { Clock } from '../../config/world.ts'
import { addresses } from '../../gateway/addresses.ts'
import { Refused } from '../endpoint.ts'
import { mediaType } from './parts.ts'
import { fetchable } from './publicAddress.ts'

export interface Fetching {
  readonly mostBytes: number
  readonly privateNetworks: readonly string[]
  readonly clock: Clock
}

const MOST_REDIRECTS = 3
/** At once, over all callers: each may take as long as `WHOLE_MS`, and memory for what comes. */
const MOST_AT_ONCE = 8
let running = 0
/** For everything: names, redirects, the last byte. */
const WHOLE_MS = 10_000
const REDIRECTS = new Set([301, 302, 303, 307, 308])
const ACCEPT = 'application/json, application/yaml, text/yaml, application/zip, */*;q=0.5'

/** Why nothing came, in words for the caller: never what the other side said. */
class Failed extends Error {}

/**
 * A document from an address that a caller names. The address of the host is looked at when it is connected to, so a
 * name that changes its mind in between gains nothing; redirects go through the same door.
 * @throws Refused 400 with host and reason; 413; 503 while too many are fetched
 */
export async function fetched(url: string, fetching: Fetching): Promise<{ bytes: Buffer; contentType: string }> {
  if (running >= MOST_AT_ONCE)
    throw new Refused(503, `${MOST_AT_ONCE} descriptions are being fetched from URLs already; try again shortly`, {
      headers: { 'Retry-After': String(WHOLE_MS / 1000) }
    })
  running++
  try {
    return await fetchOne(url, fetching)
  } finally {
    running--
  }
}

async function fetchOne(
  url: string,
  { mostBytes, privateNetworks, clock }: Fetching
): Promise<{ bytes: Buffer; contentType: string }> {
  const networks = addresses(privateNetworks)
  const giveUp = new AbortController()
  const cancel = clock.after(WHOLE_MS, () => giveUp.abort())
  const agent = new Agent({
    connect: { lookup: guarded(networks), timeout: WHOLE_MS },
    headersTimeout: WHOLE_MS,
    bodyTimeout: WHOLE_MS,
    maxHeaderSize: 32_768
  })
  let host = ''
  try {
    let target = parsed(url, null)
    for (let redirects = 0; ; redirects++) {
      host = target.host
      checkAddress(target, networks)
      const { statusCode, headers, body } = await request(target, {
        dispatcher: agent,
        signal: giveUp.signal,
        headers: { accept: ACCEPT, 'accept-encoding': 'gzip, deflate, br', 'user-agent': 'svc-gateway' }
      })
      // What is left of an answer that is not read ends with its connection; that is no fault.
      body.on('error', () => {})
      if (statusCode === 200)
        return {
          bytes: await collected(body, one(headers['content-encoding']), mostBytes),
          contentType: mediaType(one(headers['content-type']))
        }
      body.destroy()
      if (!REDIRECTS.has(statusCode) || headers.location === undefined) throw new Failed(`it answered ${statusCode}`)
      if (redirects === MOST_REDIRECTS) throw new Failed(`it redirects more than ${MOST_REDIRECTS} times`)
      target = parsed(one(headers.location), target)
    }
  } catch (cause) {
    if (cause instanceof Refused) throw cause
    const reason = giveUp.signal.aborted ? 'it takes too long' : reasonOf(cause)
    throw new Refused(400, `the description could not be fetched${host === '' ? '' : ` from ${host}`}: ${reason}`)
  } finally {
    cancel()
    agent.destroy().catch(() => undefined)
  }
}

function parsed(text: string, base: URL | null): URL {
  const url = URL.parse(text, base?.href)
  if (url === null) throw new Failed(base === null ? 'the URL is not absolute' : 'it redirects to no URL')
  if (url.protocol !== 'http:' && url.protocol !== 'https:') throw new Failed('only http and https are read')
  if (url.username !== '' || url.password !== '') throw new Failed('the URL may not hold credentials')
  return url
}

const REFUSED = 'its address is not public'

/** Addresses in place of names are not looked up, so they are looked at here. */
function checkAddress({ hostname }: URL, networks: BlockList): void {
  const address = hostname.replace(/^\[|\]$/g, '')
  if (isIP(address) !== 0 && !fetchable(address, networks)) throw new Failed(REFUSED)
}

/** Looks names up as usual and gives out those addresses alone that may be fetched from. */
function guarded(networks: BlockList): LookupFunction {
  return (name, options, done) => {
    resolveName(name, { ...options, all: true }, (error, found) => {
      if (error !== null) return done(error, '', 0)
      const open = found.filter(({ address }) => fetchable(address, networks))
      if (open.length === 0) return done(new Failed(REFUSED), '', 0)
      if (options.all === true) return done(null, open)
      done(null, open[0]!.address, open[0]!.family)
    })
  }
}

async function collected(body: Readable, encoding: string, mostBytes: number): Promise<Buffer> {
  const plain = decoded(body, encoding)
  const chunks: Buffer[] = []
  let size = 0
  for await (const chunk of plain) {
    size += (chunk as Buffer).length
    if (size > mostBytes) {
      body.destroy()
      plain.destroy()
      throw new Refused(413, 'Request Entity Too Large')
    }
    chunks.push(chunk as Buffer)
  }
  return Buffer.concat(chunks)
}

function decoded(body: Readable, encoding: string): Readable {
  const name = encoding.trim().toLowerCase()
  if (name === '' || name === 'identity') return body
  const decoder =
    name === 'gzip' || name === 'x-gzip'
      ? createGunzip()
      : name === 'deflate'
        ? createInflate()
        : name === 'br'
          ? createBrotliDecompress()
          : null
  if (decoder === null) throw new Failed('its content encoding is not read')
  body.on('error', cause => decoder.destroy(cause))
  return body.pipe(decoder)
}

function one(header: string | string[] | undefined): string {
  return (Array.isArray(header) ? header[0] : header) ?? ''
}

const REASONS: Readonly<Record<string, string>> = {
  ENOTFOUND: 'its name is unknown',
  EAI_AGAIN: 'its name is unknown',
  ECONNREFUSED: 'it refuses connections',
  ECONNRESET: 'the connection broke off',
  UND_ERR_SOCKET: 'the connection broke off',
  UND_ERR_CONNECT_TIMEOUT: 'it takes too long',
  UND_ERR_HEADERS_TIMEOUT: 'it takes too long',
  UND_ERR_BODY_TIMEOUT: 'it takes too long',
  ERR_TLS_CERT_ALTNAME_INVALID: 'its certificate is not trusted'
}

/** Several addresses of one host fail together. */
function reasonOf(cause: unknown): string {
  const causes = cause instanceof AggregateError ? [cause, ...cause.errors] : [cause]
  for (const each of causes) {
    if (each instanceof Failed) return each.message
    const code = String((each as { code?: unknown }).code ?? '')
    if (REASONS[code] !== undefined) return REASONS[code]
    if (/CERT|SELF_SIGNED|UNABLE_TO_VERIFY/.test(code)) return 'its certificate is not trusted'
  }
  return 'it gave no answer that can be read'
}
