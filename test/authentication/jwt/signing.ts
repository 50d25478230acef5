import { constants, createHmac, generateKeyPairSync, type KeyObject, sign } from 'node:crypto'

/** Tokens as tests want them, right or wrong; nothing here is checked. */

export type Json = string | Readonly<Record<string, unknown>>

export const b64 = (text: string | Buffer) => Buffer.from(text).toString('base64url')
export const plain = (json: Json) => (typeof json === 'string' ? json : JSON.stringify(json))

const CURVES: Readonly<Record<string, string>> = { ES256: 'prime256v1', ES384: 'secp384r1', ES512: 'secp521r1' }

export function signature(alg: string, input: string, key: KeyObject | string): string {
  const data = Buffer.from(input)
  const hash = `sha${alg.slice(2)}`
  if (alg.startsWith('HS')) return createHmac(hash, key).update(data).digest('base64url')
  if (alg.startsWith('RS')) return sign(hash, data, key as KeyObject).toString('base64url')
  if (alg.startsWith('PS'))
    return sign(hash, data, {
      key: key as KeyObject,
      padding: constants.RSA_PKCS1_PSS_PADDING,
      saltLength: constants.RSA_PSS_SALTLEN_DIGEST
    }).toString('base64url')
  if (alg.startsWith('ES'))
    return sign(hash, data, { key: key as KeyObject, dsaEncoding: 'ieee-p1363' }).toString('base64url')
  return sign(null, data, key as KeyObject).toString('base64url')
}

/** @param by the algorithm that really signs, where it is another than the header says */
export function signed(header: Json, payload: Json, key: KeyObject | string, by?: string): string {
  const alg = by ?? String((header as { alg?: unknown }).alg)
  const input = `${b64(plain(header))}.${b64(plain(payload))}`
  return `${input}.${signature(alg, input, key)}`
}

export interface Pair {
  readonly publicKey: KeyObject
  readonly privateKey: KeyObject
}

export const rsa = (modulusLength = 2048): Pair => generateKeyPairSync('rsa', { modulusLength })
export const ec = (alg: string): Pair => generateKeyPairSync('ec', { namedCurve: CURVES[alg] ?? alg })
export const ed25519 = (): Pair => generateKeyPairSync('ed25519')

export function jwk({ publicKey }: Pair, more: Readonly<Record<string, unknown>> = {}): Record<string, unknown> {
  return { ...publicKey.export({ format: 'jwk' }), ...more }
}

export const pem = ({ publicKey }: Pair) => publicKey.export({ type: 'spki', format: 'pem' }) as string
