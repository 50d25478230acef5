import { createCipheriv, createDecipheriv, createHash, hkdfSync } from 'node:crypto'
import type { Random } from '../config/world.ts'

/** Texts that lie encrypted in the store: AES-256-GCM under a key made of the encoding secret. */
export interface Vault {
  /** `place` is bound to the text: it opens there alone. */
  seal(text: string, place: string): string
  /** Null: sealed under another secret, for another place, or damaged. */
  open(sealed: string, place: string): string | null
}

const VERSION = 'v1'

export function vault(secret: string, random: Random): Vault {
  const key = Buffer.from(hkdfSync('sha256', secret, '', 'svc document encryption', 32))
  // Tells which secret sealed a text, without telling the secret.
  const keyId = createHash('sha256').update('svc key id').update(key).digest('hex').slice(0, 8)
  return {
    seal(text, place) {
      const iv = Buffer.from(random.bytes(12))
      const cipher = createCipheriv('aes-256-gcm', key, iv).setAAD(Buffer.from(place))
      const body = Buffer.concat([cipher.update(text, 'utf8'), cipher.final(), cipher.getAuthTag()])
      return [VERSION, keyId, iv.toString('base64url'), body.toString('base64url')].join('.')
    },
    open(sealed, place) {
      const [version, id, iv, body, rest] = sealed.split('.')
      if (version !== VERSION || id !== keyId || iv === undefined || body === undefined || rest !== undefined)
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
    }
  }
}
