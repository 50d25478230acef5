import { request } from 'undici'
import type { Clock } from '../../config/world.ts'
import { isLinkLocal } from '../../streams/linkLocal.ts'
import type { IntrospectionScheme } from '../api.ts'
import { askingAgent, jsonOf, NoAnswer, noAnswer, WHOLE_MS } from '../jwks/asking.ts'
import type { Claims } from '../keys/claims.ts'

/** One question to an authorization server: is this token good, and whose is it (RFC 7662)? */

const MOST_BYTES = 262_144
const CONNECTIONS = 64

/** Of all schemes: its connections end by themselves, and none that is idle keeps the process. */
const agent = askingAgent(CONNECTIONS)

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
    if (statusCode === 200) return read(await jsonOf(body, MOST_BYTES))
    body.destroy()
    throw new NoAnswer(`it answers ${statusCode}`)
  } catch (cause) {
    throw noAnswer(cause, giveUp.signal.aborted)
  } finally {
    cancel()
  }
}

/** `active` is all that an answer must have (RFC 7662 §2.2). @throws NoAnswer */
function read(parsed: unknown): Claims {
  if (typeof parsed !== 'object' || parsed === null || Array.isArray(parsed)) throw new NoAnswer('it answers no object')
  if (typeof (parsed as Claims).active !== 'boolean') throw new NoAnswer('it does not answer whether a token is active')
  return Object.freeze(parsed as Claims)
}
