export const notConnected = 'not connected'
export const noAnswer = 'no answer'

/** Why Redis did not do it, in one line; what it was asked is not told, as it may hold secrets. */
export function causeOf(error: unknown): string {
  const { message, code, lastNodeError } = error as { message?: unknown; code?: unknown; lastNodeError?: unknown }
  // A cluster whose nodes all failed: why the last one did says more.
  if (lastNodeError) return causeOf(lastNodeError)
  if (typeof message === 'string' && (gone.test(message) || neverSent.test(message))) return notConnected
  const text = typeof message === 'string' && message !== '' ? message : typeof code === 'string' ? code : String(error)
  // Redis before 7 puts the place in the script before the reason, Redis 7 behind it.
  const [line = ''] = text.split(/[\r\n]/, 1)
  return line.replace(/^ERR Error (?:running|compiling) script.*?: -?(?=[A-Z]+ )/, '').slice(0, 200)
}

/** In words of ioredis. */
const gone = /^(Connection is closed|Reached the max retries per request limit|None of startup nodes is available)/
const neverSent = /^(Stream isn't writeable|Cluster isn't ready)/

/** For whoever mixed up `redis://` and `rediss://`: neither side says so. */
export function tlsHint(error: unknown, isTls: boolean): string {
  const {
    message = '',
    code = '',
    lastNodeError
  } = error as { message?: string; code?: string; lastNodeError?: unknown }
  if (lastNodeError) return tlsHint(lastNodeError, isTls)
  const isMixedUp = isTls
    ? /^(ETIMEDOUT|ECONNRESET|EPROTO)$|^ERR_SSL/.test(code)
    : /^(ECONNRESET|EPIPE)$/.test(code) || message === noAnswer || /^Protocol error/.test(message)
  return isMixedUp ? ' (does it speak TLS?)' : ''
}

/** Trying again changes nothing: the settings are wrong, or the user lacks rights. */
export function isHopeless(error: unknown): boolean {
  const {
    message = '',
    code = '',
    lastNodeError
  } = error as {
    message?: string
    code?: string
    lastNodeError?: unknown
  }
  if (lastNodeError) return isHopeless(lastNodeError)
  return (
    /^(NOAUTH|WRONGPASS|NOPERM)\b|^ERR (invalid password|AUTH\b|Client sent AUTH|wrong number of arguments for 'auth')/.test(
      message
    ) ||
    /^ERR (This instance has cluster support disabled|DB index is out of range)/.test(message) ||
    /CERT|SELF_SIGNED|UNABLE_TO_(VERIFY|GET)|ERR_TLS|ERR_SSL|^EPROTO$/.test(code)
  )
}
