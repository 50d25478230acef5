import type { Key } from '../../config/shape/key.ts'
import { type HashType, hashTypes, isHashType, typeOf } from '../../gateway/passwords/hashes.ts'
import { Refused } from '../endpoint.ts'
import { hashPassword } from '../passwords.ts'

/** Passwords of basic authentication: `basic_auth_data` of a key that is stored under a user name. */

type BasicAuth = Key['basic_auth_data']
export type HashPassword = (text: string, type: HashType) => Promise<string>

/** Hashes a password once, however often a change is tried again. */
export function hashOnce(): HashPassword {
  let hashed: Promise<string> | null = null
  return (text, type) => {
    hashed ??= hashPassword(text, type)
    return hashed
  }
}

/**
 * What is stored of a body's `basic_auth_data`: the password as a hash, a blank one as it is stored already.
 * @param name that the key is stored under; null: a generated token, which is nobody's user name
 * @throws Refused
 */
export async function basicAuth(
  given: BasicAuth,
  stored: BasicAuth,
  name: string | null,
  hash: HashPassword
): Promise<BasicAuth> {
  const { user = '', hash_type = '', password = '' } = given ?? {}
  const type = isBlank(hash_type) ? 'bcrypt' : hash_type
  if (!isHashType(type)) throw new Refused(400, `basic_auth_data.hash_type must be ${hashTypes.join(' or ')}`)
  const isMissing = isBlank(password) && !stored?.password
  // Bodies for other systems carry the block with every key; one that says something is meant to make a user.
  if (isMissing && isBlank(user) && isBlank(hash_type)) return undefined
  if (name === null)
    throw new Refused(400, 'basic_auth_data.password: a generated token is no user name; store it under one')
  if (user !== '' && user !== name)
    throw new Refused(400, 'basic_auth_data.user is not the name that the key is stored under')
  // RFC 7617 §2: the first colon ends the name.
  if (name.includes(':')) throw new Refused(400, 'A user name must not contain a colon')
  if (isMissing) throw new Refused(400, 'basic_auth_data.password is required')
  if (!isBlank(password) && password !== stored?.password)
    return { user: name, hash_type: type, password: await hash(password, type) }
  const kept = stored!.password!
  return { user: name, hash_type: typeOf(kept), password: kept }
}

function isBlank(text: string): boolean {
  return text.trim() === ''
}
