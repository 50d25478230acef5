import { createPublicKey, generateKeyPairSync, type KeyObject, sign, X509Certificate } from 'node:crypto'

/** Makes certificates byte by byte, so that tests can write what no tool writes. */

export function der(tag: number, ...contents: Uint8Array[]): Buffer {
  const content = Buffer.concat(contents)
  const length = content.length
  if (length < 128) return Buffer.concat([Buffer.of(tag, length), content])
  const size = Buffer.alloc(4)
  size.writeUInt32BE(length)
  const short = size.subarray(size.findIndex(byte => byte !== 0))
  return Buffer.concat([Buffer.of(tag, 0x80 | short.length), short, content])
}

export const sequence = (...contents: Uint8Array[]) => der(0x30, ...contents)
export const octets = (content: Uint8Array) => der(0x04, content)

export function oid(text: string): Buffer {
  const [first = 0, second = 0, ...rest] = text.split('.').map(Number)
  const bytes = [first * 40 + second, ...rest].flatMap(number => {
    const digits = [number & 0x7f]
    for (let more = Math.floor(number / 128); more > 0; more = Math.floor(more / 128))
      digits.unshift((more & 0x7f) | 0x80)
    return digits
  })
  return der(0x06, Buffer.from(bytes))
}

export const UTF8 = 0x0c
export const BMP = 0x1e
export const T61 = 0x14

/** Attribute type, value; the value's tag, UTF8 where none is given. */
export type Attribute = readonly [type: string, value: string | Buffer, tag?: number]

export const CN = '2.5.4.3'

function name(attributes: readonly Attribute[]): Buffer {
  return sequence(
    ...attributes.map(([type, value, tag = UTF8]) => der(0x31, sequence(oid(type), der(tag, Buffer.from(value)))))
  )
}

const time = (iso: string) => der(0x18, Buffer.from(`${iso.replace(/[-:T]/g, '').slice(0, 14)}Z`))

/** An extension: its type, and the DER that its octet string holds. */
export const extension = (type: string, value: Uint8Array) => sequence(oid(type), octets(value))
export const hosts = (...names: string[]) =>
  extension('2.5.29.17', sequence(...names.map(name => der(0x82, Buffer.from(name)))))
export const isCa = extension('2.5.29.19', sequence(der(0x01, Buffer.of(0xff))))

export interface Made {
  readonly certificate: X509Certificate
  readonly key: KeyObject
  readonly pem: string
  /** PKCS#8. */
  readonly keyPem: string
  readonly subject: readonly Attribute[]
}

let serial = 0

interface Wanted {
  readonly subject?: readonly Attribute[]
  readonly issuer?: Made
  readonly extensions?: readonly Buffer[]
  readonly from?: string
  readonly to?: string
  readonly keys?: { readonly publicKey: KeyObject; readonly privateKey: KeyObject }
}

/** A certificate of a new key on P-256; without `issuer` it signs itself. */
export function certificate(wanted: Wanted = {}): Made {
  const { raw, key, subject } = rawCertificate(wanted)
  const made = new X509Certificate(raw)
  return {
    certificate: made,
    key,
    pem: made.toString(),
    keyPem: String(key.export({ format: 'pem', type: 'pkcs8' })),
    subject
  }
}

/** The same as bytes, which need not be readable. */
export function rawCertificate(wanted: Wanted): { raw: Buffer; key: KeyObject; subject: readonly Attribute[] } {
  const { subject = [[CN, `test ${serial + 1}`]], issuer, extensions = [] } = wanted
  const { publicKey, privateKey } = wanted.keys ?? generateKeyPairSync('ec', { namedCurve: 'P-256' })
  const signer = issuer?.key ?? privateKey
  const ecdsa = sequence(oid(signer.asymmetricKeyType === 'ed25519' ? '1.3.101.112' : '1.2.840.10045.4.3.2'))
  const tbs = sequence(
    der(0xa0, der(0x02, Buffer.of(2))),
    der(0x02, Buffer.from([1, ++serial >> 8, serial & 0xff])),
    ecdsa,
    name(issuer?.subject ?? subject),
    sequence(time(wanted.from ?? '2020-01-01T00:00:00Z'), time(wanted.to ?? '2120-01-02T03:04:05Z')),
    name(subject),
    publicKey.export({ format: 'der', type: 'spki' }),
    ...(extensions.length === 0 ? [] : [der(0xa3, sequence(...extensions))])
  )
  const signature = sign(signer.asymmetricKeyType === 'ed25519' ? null : 'sha256', tbs, signer)
  return { raw: sequence(tbs, ecdsa, der(0x03, Buffer.of(0), signature)), key: privateKey, subject }
}

/** Hexadecimal SHA-256 of the DER. */
export const hashOf = ({ certificate }: Made) => certificate.fingerprint256.replaceAll(':', '').toLowerCase()

export const publicKeyOf = ({ key }: Made) => createPublicKey(key)
