import { isRaw } from '../config/exactJson.ts'
import { isObject } from '../config/report.ts'
import { embeddedOrg, looksLikeToken } from '../gateway/keys/token.ts'

/** Words of a name that make its value a secret wherever it stands: `X-Backend-Token`, `clientSecret`, `pin_password`. */
const SECRETS = new Set(
  'password passwords passwd pass passcode passphrase pw pwd secret secrets token tokens auth authorization jwt cookie cookies credential credentials signature sig apikey'.split(
    ' '
  )
)
/** Words that make `key` one: `X-Functions-Key`, `Ocp-Apim-Subscription-Key`, `access_key`. */
const KEYS = new Set(
  'access account api app auth client encryption functions master private secret shared signing storage subscription'.split(
    ' '
  )
)
/** Whole names, without `_` and `-`. */
const NAMES = new Set('passwordhash sealedkey hmacstring setcookie'.split(' '))
/** Of our own documents, which have such words and hold no secret. */
const OPEN = new Set(
  'mintokenlength passwordmaxdays passwordupdated resetpassword tokenurl authtype basicauth basicauthdata hashtype signaturevalidation certificateauth authorizationservers'.split(
    ' '
  )
)
/** Members of a security scheme that have such names and hold no secret but below names of their own. */
const OPEN_IN_SCHEMES = new Set(['jwt', 'cookie'])
export const MASK = '********'

function isSecret(name: string): boolean {
  const whole = name.toLowerCase().replace(/[_-]/g, '')
  if (OPEN.has(whole)) return false
  if (NAMES.has(whole)) return true
  const words = name
    .replace(/([a-z0-9])([A-Z])/g, '$1-$2')
    .toLowerCase()
    .split(/[^a-z0-9]+/)
  return words.some(word => SECRETS.has(word)) || (words.includes('key') && words.some(word => KEYS.has(word)))
}

/** A copy of a document without its secrets: what holds one keeps its place. Pairs of `name` and `value` count as members. */
export function masked(value: unknown): unknown {
  return copied(value, isSecret)
}

type IsSecret = (name: string, value: unknown) => boolean

function copied(value: unknown, isSecretHere: IsSecret): unknown {
  if (typeof value === 'string')
    return /^[a-z][a-z0-9+.-]*:\/\//i.test(value) ? maskedAddress(value) : maskedToken(value)
  if (typeof value !== 'object' || value === null || isRaw(value)) return value
  if (Array.isArray(value)) return value.map(inner => copied(inner, isSecretHere))
  const pair = 'name' in value && 'value' in value && typeof value.name === 'string' && isSecret(value.name)
  const out: Record<string, unknown> = Object.create(null)
  for (const [name, inner] of Object.entries(value)) {
    const secret = isSecretHere(name, inner) || (pair && name === 'value')
    if (secret && holdsSomething(inner) && !isLocation(inner)) out[maskedToken(name)] = MASK
    else if (name === 'securitySchemes') out[name] = copied(inner, amongSchemes)
    else if (name === 'source' && isSecretSource(inner)) out[name] = MASK
    else out[maskedToken(name)] = copied(inner, isSecretHere === amongSchemes ? inScheme : isSecretHere)
  }
  return out
}

/** Names of schemes are those of their writer. */
const amongSchemes: IsSecret = (name, value) => !isObject(value) && isSecret(name)
const inScheme: IsSecret = (name, value) => !(OPEN_IN_SCHEMES.has(name) && isObject(value)) && isSecret(name)

/** Where a credential stands, not the credential. */
function isLocation(value: unknown): boolean {
  if (!isObject(value) || typeof value.enabled !== 'boolean') return false
  return Object.keys(value).every(name => name === 'enabled' || name === 'name')
}

/** Keys of signatures: all but addresses and what is public by its form. In base64 it may be either. */
function isSecretSource(value: unknown): boolean {
  return typeof value === 'string' && value !== '' && !/^\s*(?:https?:\/\/|-----BEGIN )/i.test(value)
}

/** Switches and empty members tell nothing. */
function holdsSomething(value: unknown): boolean {
  return value !== null && value !== '' && typeof value !== 'boolean'
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

/** An address: without user and password, and as `maskedUrl`. */
function maskedAddress(address: string): string {
  const [, origin, user = '', rest = ''] = /^([a-z][a-z0-9+.-]*:\/\/)([^/?#@]*@)?(.*)$/is.exec(address)!
  return `${origin}${user === '' ? '' : `${MASK}@`}${maskedUrl(rest)}`
}

/** Keys of ours, those that a comparable system made, and private keys in PEM are known by their form. */
function maskedToken(text: string): string {
  if (text.includes('PRIVATE KEY-----')) return MASK
  return looksLikeToken(text) || embeddedOrg(text) !== null ? MASK : text
}

function decoded(text: string): string {
  try {
    return decodeURIComponent(text)
  } catch {
    return text
  }
}
