import { Agent, request } from 'undici'
import type { Clock } from '../../config/world.ts'
import { isLinkLocal, safeLookup } from '../../streams/linkLocal.ts'
import type { KeySet } from './keySets.ts'

const MOST_BYTES = 1_000_000
const MOST_REDIRECTS = 3
/** For everything: names, redirects, the last byte. */
const WHOLE_MS = 5_000
/** To one origin at once. */
const CONNECTIONS = 8
const REDIRECTS = new Set([301, 302, 303, 307, 308])

/** Why no set came, in words for the log: never what the other side said. */
export class NoKeySet extends Error {}

export interface Fetching {
  /**
   * The keys at an address. Any address that the API's owner names, but no link-local one (outside.md §5), wherever it
   * comes from: the address itself, what its name stands for, a redirect. @throws NoKeySet
   */
  keys(url: string): Promise<KeySet['keys']>
  close(): void
}

export function fetching(clock: Clock): Fetching {
  const agent = new Agent({
    connections: CONNECTIONS,
    pipelining: 1,
    connect: { lookup: safeLookup, timeout: WHOLE_MS },
    headersTimeout: WHOLE_MS,
    bodyTimeout: WHOLE_MS,
    maxHeaderSize: 32_768
  })

  async function text(url: string, signal: AbortSignal): Promise<string> {
    let target = addressOf(url, undefined)
    for (let redirects = 0; ; redirects++) {
      const { statusCode, headers, body } = await request(target, {
        dispatcher: agent,
        signal,
        headers: { accept: 'application/jwk-set+json, application/json;q=0.9, */*;q=0.1' }
      })
      // What is left of an answer that is not read ends with its connection; that is no fault.
      body.on('error', () => {})
      if (statusCode === 200) return collected(body)
      body.destroy()
      const { location } = headers
      if (!REDIRECTS.has(statusCode) || typeof location !== 'string') throw new NoKeySet(`it answers ${statusCode}`)
      if (redirects === MOST_REDIRECTS) throw new NoKeySet(`it redirects more than ${MOST_REDIRECTS} times`)
      target = addressOf(location, target)
    }
  }

  return {
    async keys(url) {
      const giveUp = new AbortController()
      const cancel = clock.after(WHOLE_MS, () => giveUp.abort())
      try {
        return keysIn(await text(url, giveUp.signal))
      } catch (cause) {
        if (cause instanceof NoKeySet) throw cause
        throw new NoKeySet(giveUp.signal.aborted ? 'it takes too long' : reasonOf(cause), { cause })
      } finally {
        cancel()
      }
    },
    close() {
      agent.destroy().catch(() => undefined)
    }
  }
}

function addressOf(text: string, base: URL | undefined): URL {
  const url = URL.parse(text, base?.href)
  if (url === null || !/^https?:$/.test(url.protocol)) throw new NoKeySet('it is no http or https address')
  if (url.username !== '' || url.password !== '') throw new NoKeySet('its address holds a user or password')
  if (base?.protocol === 'https:' && url.protocol === 'http:') throw new NoKeySet('it redirects from https to http')
  // Addresses in place of names are not looked up, so they are looked at here.
  if (isLinkLocal(url.hostname)) throw new NoKeySet('it is a link-local address')
  return url
}

async function collected(body: AsyncIterable<Buffer> & { destroy(): unknown }): Promise<string> {
  const chunks: Buffer[] = []
  let size = 0
  for await (const chunk of body) {
    size += chunk.length
    if (size > MOST_BYTES) {
      body.destroy()
      throw new NoKeySet(`it answers more than ${MOST_BYTES} bytes`)
    }
    chunks.push(chunk)
  }
  return Buffer.concat(chunks).toString()
}

/** The members of `keys` that are objects: others are no keys (RFC 7517 §5). @throws NoKeySet */
function keysIn(text: string): KeySet['keys'] {
  let parsed: unknown
  try {
    parsed = JSON.parse(text)
  } catch {
    throw new NoKeySet('it answers no JSON')
  }
  const keys = (parsed as { keys?: unknown } | null)?.keys
  if (!Array.isArray(keys)) throw new NoKeySet('it answers no key set')
  return keys.filter(key => typeof key === 'object' && key !== null && !Array.isArray(key))
}

function reasonOf(cause: unknown): string {
  const { code, message } = cause as { code?: unknown; message?: unknown }
  // Several addresses of one host fail together, without a text of their own.
  if (cause instanceof AggregateError && cause.errors.length > 0) return reasonOf(cause.errors[0])
  return typeof code === 'string' && code !== '' ? code : String(message)
}
