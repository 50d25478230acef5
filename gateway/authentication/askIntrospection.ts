import { Agent, request } from 'undici'
import type { Clock } from '../../config/world.ts'
import { isLinkLocal, safeLookup } from '../../streams/linkLocal.ts'
import type { IntrospectionScheme } from '../api.ts'
import type { Claims } from '../keys/claims.ts'

/** One question to an authorization server: is this token good, and whose is it (RFC 7662)? */

/** For everything: names, the question, the last byte. */
const WHOLE_MS = 5_000
const MOST_BYTES = 262_144
/** To one origin at once; questions beyond wait, within their time. */
const CONNECTIONS = 64

/** Why there is no answer, in words for the log: never what the other side said. */
export class NoAnswer extends Error {}

/** Of all schemes: its connections end by themselves, and none that is idle keeps the process. */
const agent = new Agent({
  connections: CONNECTIONS,
  pipelining: 1,
  connect: { lookup: safeLookup, timeout: WHOLE_MS },
  headersTimeout: WHOLE_MS,
  bodyTimeout: WHOLE_MS,
  maxHeaderSize: 32_768
})

/**
 * The members of the answer; `active` is among them. Redirects are not followed: they would carry the secret elsewhere.
 * @throws NoAnswer
 */
export async function ask(
  token: string,
  { url, clientId, clientSecret }: Pick<IntrospectionScheme, 'url' | 'clientId' | 'clientSecret'>,
  clock: Clock
): Promise<Claims> {
  // Addresses in place of names are not looked up, so they are looked at here.
  if (isLinkLocal(new URL(url).hostname)) throw new NoAnswer('it is a link-local address')
  const giveUp = new AbortController()
  const cancel = clock.after(WHOLE_MS, () => giveUp.abort())
  try {
    const form = new URLSearchParams({ token, client_id: clientId, client_secret: clientSecret })
    const { statusCode, body } = await request(url, {
      dispatcher: agent,
      method: 'POST',
      signal: giveUp.signal,
      headers: { 'content-type': 'application/x-www-form-urlencoded', accept: 'application/json' },
      body: form.toString()
    })
    // What is left of an answer that is not read ends with its connection; that is no fault.
    body.on('error', () => {})
    if (statusCode === 200) return read(await collected(body))
    body.destroy()
    throw new NoAnswer(`it answers ${statusCode}`)
  } catch (cause) {
    if (cause instanceof NoAnswer) throw cause
    throw new NoAnswer(giveUp.signal.aborted ? 'it takes too long' : reasonOf(cause), { cause })
  } finally {
    cancel()
  }
}

async function collected(body: AsyncIterable<Buffer> & { destroy(): unknown }): Promise<string> {
  const chunks: Buffer[] = []
  let size = 0
  for await (const chunk of body) {
    size += chunk.length
    if (size > MOST_BYTES) {
      body.destroy()
      throw new NoAnswer(`it answers more than ${MOST_BYTES} bytes`)
    }
    chunks.push(chunk)
  }
  return Buffer.concat(chunks).toString()
}

/** `active` is all that an answer must have (RFC 7662 §2.2). @throws NoAnswer */
function read(text: string): Claims {
  let parsed: unknown
  try {
    parsed = JSON.parse(text)
  } catch {
    throw new NoAnswer('it answers no JSON')
  }
  if (typeof parsed !== 'object' || parsed === null || Array.isArray(parsed)) throw new NoAnswer('it answers no object')
  if (typeof (parsed as Claims).active !== 'boolean') throw new NoAnswer('it does not answer whether a token is active')
  return Object.freeze(parsed as Claims)
}

function reasonOf(cause: unknown): string {
  const { code, message } = cause as { code?: unknown; message?: unknown }
  // Several addresses of one host fail together, without a text of their own.
  if (cause instanceof AggregateError && cause.errors.length > 0) return reasonOf(cause.errors[0])
  return typeof code === 'string' && code !== '' ? code : String(message)
}
