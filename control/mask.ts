import { isRaw } from '../config/exactJson.ts'
import { embeddedOrg, looksLikeToken } from '../gateway/keys/token.ts'

/** Members whose values are secrets wherever they stand, in lower case without `_` and `-`. */
const SECRETS = new Set(
  'password passwordhash currentpassword newpassword accesskey sealedkey secret hmacstring adminsecret clientsecret privatekey key token authorization proxyauthorization cookie setcookie apikey xapikey accesstoken refreshtoken'.split(
    ' '
  )
)
export const MASK = '********'

function isSecret(name: string): boolean {
  return SECRETS.has(name.toLowerCase().replace(/[_-]/g, ''))
}

/** A copy of a document without its secrets: what holds one keeps its place. Pairs of `name` and `value` count as members. */
export function masked(value: unknown): unknown {
  if (typeof value === 'string') return maskedToken(value)
  if (typeof value !== 'object' || value === null || isRaw(value)) return value
  if (Array.isArray(value)) return value.map(masked)
  const pair = 'name' in value && 'value' in value && typeof value.name === 'string' && isSecret(value.name)
  const out: Record<string, unknown> = Object.create(null)
  for (const [name, inner] of Object.entries(value)) {
    const secret = (isSecret(name) || (pair && name === 'value')) && typeof inner === 'string' && inner !== ''
    out[maskedToken(name)] = secret ? MASK : masked(inner)
  }
  return out
}

/** Path and query without the tokens of keys and without values of parameters that hold secrets. */
export function maskedUrl(url: string): string {
  const [path = '', query] = url.split(/\?(.*)/s)
  const plain = path
    .split('/')
    .map(segment => (maskedToken(decoded(segment)) === MASK ? MASK : segment))
    .join('/')
  if (query === undefined) return plain
  const parts = query.split('&').map(part => {
    const [name = '', value] = part.split(/=(.*)/s)
    if (value === undefined || value === '') return part
    const text = decoded(value)
    return isSecret(decoded(name)) || maskedToken(text) === MASK ? `${name}=${MASK}` : part
  })
  return `${plain}?${parts.join('&')}`
}

/** Keys of ours, and those that a comparable system made, are known by their form. */
function maskedToken(text: string): string {
  return looksLikeToken(text) || embeddedOrg(text) !== null ? MASK : text
}

function decoded(text: string): string {
  try {
    return decodeURIComponent(text)
  } catch {
    return text
  }
}
