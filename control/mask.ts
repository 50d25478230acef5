import { isRaw } from '../config/exactJson.ts'

/** Members whose values are secrets wherever they stand. */
const SECRET =
  /^(password|passwordHash|current_password|new_password|access_key|sealedKey|secret|hmac_string|admin_secret|clientSecret|client_secret|private_key|key|token)$/i
export const MASK = '********'

/** A copy of a document without its secrets: what holds one keeps its place. */
export function masked(value: unknown): unknown {
  if (typeof value !== 'object' || value === null || isRaw(value)) return value
  if (Array.isArray(value)) return value.map(masked)
  const out: Record<string, unknown> = Object.create(null)
  for (const [name, inner] of Object.entries(value))
    out[name] = SECRET.test(name) && typeof inner === 'string' && inner !== '' ? MASK : masked(inner)
  return out
}
