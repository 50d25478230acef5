import { createCipheriv, createDecipheriv, createHash, hkdfSync } from 'node:crypto'
import type { GatewaySettings } from '../config/settings.ts'
import type { Random } from '../config/world.ts'

/** Texts that lie encrypted in the store: AES-256-GCM under a key made of the encoding secret. */
export interface Vault {
  /** `place` is bound to the text: it opens there alone. */
  seal(text: string, place: string): string
  /** Null: sealed under another secret, for another place, or damaged. */
  open(sealed: string, place: string): string | null
  /** Sealed under the secret that seals now, not under an earlier one. */
  isOwn(sealed: string): boolean
}

const VERSION = 'v1'

/**
 * @param secret seals and opens
 * @param earlier open alone: what lies sealed under them can be read until it is sealed anew
 */
export function vault(secret: string, random: Random, earlier: readonly string[] = []): Vault {
  const own = keyOf(secret)
  const keys = new Map([...earlier.map(keyOf), own].map(({ id, key }) => [id, key]))
  return {
    seal(text, place) {
      const iv = Buffer.from(random.bytes(12))
      const cipher = createCipheriv('aes-256-gcm', own.key, iv).setAAD(Buffer.from(place))
      const body = Buffer.concat([cipher.update(text, 'utf8'), cipher.final(), cipher.getAuthTag()])
      return [VERSION, own.id, iv.toString('base64url'), body.toString('base64url')].join('.')
    },
    open(sealed, place) {
      const [version, id, iv, body, rest] = sealed.split('.')
      const key = keys.get(id ?? '')
      if (version !== VERSION || key === undefined || iv === undefined || body === undefined || rest !== undefined)
        return null
      const bytes = Buffer.from(body, 'base64url')
      if (bytes.length < 16) return null
      try {
        const decipher = createDecipheriv('aes-256-gcm', key, Buffer.from(iv, 'base64url')).setAAD(Buffer.from(place))
        decipher.setAuthTag(bytes.subarray(-16))
        return Buffer.concat([decipher.update(bytes.subarray(0, -16)), decipher.final()]).toString('utf8')
      } catch {
        return null
      }
    },
    isOwn: sealed => sealed.startsWith(`${VERSION}.${own.id}.`)
  }
}

/** The vault of an installation. */
export function vaultOf({ secret, security }: Pick<GatewaySettings, 'secret' | 'security'>, random: Random): Vault {
  const { private_certificate_encoding_secret: encoding, previous_private_certificate_encoding_secrets: previous } =
    security
  return vault(encoding || secret, random, [secret, ...previous])
}

/** The id tells which secret sealed a text, without telling the secret. */
function keyOf(secret: string): { readonly id: string; readonly key: Buffer } {
  const key = Buffer.from(hkdfSync('sha256', secret, '', 'svc document encryption', 32))
  return { id: createHash('sha256').update('svc key id').update(key).digest('hex').slice(0, 8), key }
}
