import type { KeyObject } from 'node:crypto'
import { compactVerify, errors } from 'jose'
import type { Jws } from './compact.ts'

/**
 * Whether a key has signed a token. jose turns a KeyObject into a CryptoKey once for each algorithm and remembers it.
 * Whatever it refuses (a key that does not go with the algorithm, a signature of the wrong length) is no signature.
 */
export async function isSigned({ token, alg }: Jws, key: KeyObject): Promise<boolean> {
  try {
    await compactVerify(token, key, { algorithms: [alg] })
    return true
  } catch (cause) {
    if (cause instanceof errors.JOSEError || cause instanceof TypeError || cause instanceof DOMException) return false
    throw cause
  }
}
