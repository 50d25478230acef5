import { type HashType, passwordFault } from '../gateway/passwords/hashes.ts'
import { passwords } from '../gateway/passwords/passwords.ts'
import { Refused } from './endpoint.ts'

/** The hash of a password that somebody sets. @throws Refused 400 when it is too long for it; Unavailable when too many wait */
export async function hashPassword(text: string, type: HashType = 'bcrypt'): Promise<string> {
  const fault = passwordFault(text, type)
  if (fault !== null) throw new Refused(400, fault)
  return passwords.hash(text, type)
}
