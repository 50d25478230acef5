import { request } from 'undici'
import type { Clock } from '../../config/world.ts'
import { isLinkLocal } from '../../streams/linkLocal.ts'
import { askingAgent, jsonOf, NoAnswer, noAnswer, WHOLE_MS } from './asking.ts'
import type { KeySet } from './keySets.ts'

const MOST_BYTES = 1_000_000
const MOST_REDIRECTS = 3
/** To one origin at once. */
const CONNECTIONS = 8
const REDIRECTS = new Set([301, 302, 303, 307, 308])

export interface Fetching {
  /**
   * The keys at an address. Any address that the API's owner names, but no link-local one (outside.md §5), wherever it
   * comes from: the address itself, what its name stands for, a redirect. @throws NoAnswer
   */
  keys(url: string): Promise<KeySet['keys']>
  close(): void
}

export function fetching(clock: Clock): Fetching {
  const agent = askingAgent(CONNECTIONS)

  async function set(url: string, signal: AbortSignal): Promise<unknown> {
    let target = addressOf(url, undefined)
    for (let redirects = 0; ; redirects++) {
      const { statusCode, headers, body } = await request(target, {
        dispatcher: agent,
        signal,
        headers: { accept: 'application/jwk-set+json, application/json;q=0.9, */*;q=0.1' }
      })
      // What is left of an answer that is not read ends with its connection; that is no fault.
      body.on('error', () => {})
      if (statusCode === 200) return jsonOf(body, MOST_BYTES)
      body.destroy()
      const { location } = headers
      if (!REDIRECTS.has(statusCode) || typeof location !== 'string') throw new NoAnswer(`it answers ${statusCode}`)
      if (redirects === MOST_REDIRECTS) throw new NoAnswer(`it redirects more than ${MOST_REDIRECTS} times`)
      target = addressOf(location, target)
    }
  }

  return {
    async keys(url) {
      const giveUp = new AbortController()
      const cancel = clock.after(WHOLE_MS, () => giveUp.abort())
      try {
        return keysIn(await set(url, giveUp.signal))
      } catch (cause) {
        throw noAnswer(cause, giveUp.signal.aborted)
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
  if (url === null || !/^https?:$/.test(url.protocol)) throw new NoAnswer('it is no http or https address')
  if (url.username !== '' || url.password !== '') throw new NoAnswer('its address holds a user or password')
  if (base?.protocol === 'https:' && url.protocol === 'http:') throw new NoAnswer('it redirects from https to http')
  // Addresses in place of names are not looked up, so they are looked at here.
  if (isLinkLocal(url.hostname)) throw new NoAnswer('it is a link-local address')
  return url
}

/** The members of `keys` that are objects: others are no keys (RFC 7517 §5). @throws NoAnswer */
function keysIn(parsed: unknown): KeySet['keys'] {
  const keys = (parsed as { keys?: unknown } | null)?.keys
  if (!Array.isArray(keys)) throw new NoAnswer('it answers no key set')
  return keys.filter(key => typeof key === 'object' && key !== null && !Array.isArray(key))
}
