import { constants, createHmac, generateKeyPairSync, type KeyObject, sign } from 'node:crypto'
import { api, rights, type TestGateway } from '../../helpers/gateway.ts'
import type { Answered } from '../../steps/ask.ts'

export const said = ({ status, text }: Answered) => [status, text]

/** An API `a` whose callers are known by this authentication. */
export const signedApi = (authentication: object, url = 'svc://echo', id = 'a', more: object = {}) =>
  api(id, url, { server: { authentication: { enabled: true, ...authentication }, ...more } })

export const SECRET = 'a shared secret'

/** A key of a custom id; answers the id. */
export async function keyNamed(gw: TestGateway, name: string, members: object): Promise<string> {
  const { status, body } = await gw.svc('POST', `/svc/keys/${name}`, { ...rights('a'), ...members })
  if (status !== 200) throw new Error(`the key was refused: ${JSON.stringify(body)}`)
  return name
}

/** Stores a certificate or a bare public key; answers its id. */
export async function stored(gw: TestGateway, key: KeyObject | string): Promise<string> {
  const pem = typeof key === 'string' ? key : String(key.export({ format: 'pem', type: 'spki' }))
  const { status, body } = await gw.svc('POST', '/svc/certs', pem)
  if (status !== 200) throw new Error(`the certificate was refused: ${JSON.stringify(body)}`)
  return body.id
}

export const pairs = {
  rsa: generateKeyPairSync('rsa', { modulusLength: 2048 }),
  p256: generateKeyPairSync('ec', { namedCurve: 'prime256v1' }),
  p384: generateKeyPairSync('ec', { namedCurve: 'secp384r1' }),
  ed25519: generateKeyPairSync('ed25519')
}

export type Signer = (text: string) => Buffer

export const byHmac = (hash: string, secret: string | Buffer): Signer => {
  return text => createHmac(hash, secret).update(text, 'latin1').digest()
}

export const signers: Record<string, (key: KeyObject) => Signer> = {
  'rsa-v1_5-sha256': key => text => sign('sha256', Buffer.from(text, 'latin1'), key),
  'rsa-pss-sha512': key => text =>
    sign('sha512', Buffer.from(text, 'latin1'), { key, padding: constants.RSA_PKCS1_PSS_PADDING, saltLength: 64 }),
  'ecdsa-p256-sha256': key => text => sign('sha256', Buffer.from(text, 'latin1'), { key, dsaEncoding: 'ieee-p1363' }),
  'ecdsa-p384-sha384': key => text => sign('sha384', Buffer.from(text, 'latin1'), { key, dsaEncoding: 'ieee-p1363' }),
  ed25519: key => text => sign(null, Buffer.from(text, 'latin1'), key)
}

/** `Signature-Input` and `Signature` under a label. `lines`: identifier as it is written, and its value. */
export function message(
  lines: readonly (readonly [identifier: string, value: string])[],
  params: string,
  signer: Signer,
  label = 'sig'
): { 'Signature-Input': string; Signature: string } {
  const input = `(${lines.map(([identifier]) => identifier).join(' ')})${params}`
  const base = [...lines, ['"@signature-params"', input]].map(line => line.join(': ')).join('\n')
  return {
    'Signature-Input': `${label}=${input}`,
    Signature: `${label}=:${signer(base).toString('base64')}:`
  }
}

/** The value of `Authorization` for a signing string. */
export function draft(
  given: { keyId: string; algorithm?: string; headers?: string },
  text: string,
  signer: Signer,
  write: (base64: string) => string = encodeURIComponent
): string {
  const params = [
    `keyId="${given.keyId}"`,
    ...(given.algorithm === undefined ? [] : [`algorithm="${given.algorithm}"`]),
    ...(given.headers === undefined ? [] : [`headers="${given.headers}"`]),
    `signature="${write(signer(text).toString('base64'))}"`
  ]
  return `Signature ${params.join(',')}`
}
