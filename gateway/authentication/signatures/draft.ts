import { authParams } from './authParams.ts'
import { MOST_COVERED } from './target.ts'

/** What a credential of draft-cavage-http-signatures says. */
export interface DraftSignature {
  readonly keyId: string
  readonly algorithm: string
  /** Lower-case names, none twice; never empty. */
  readonly headers: readonly string[]
  readonly signature: Buffer
}

/** @param text with or without the word `Signature` before the parameters */
export function readDraft(text: string): DraftSignature | null {
  const params = authParams(text.replace(/^signature +/i, ''))
  if (params === null) return null
  const keyId = params.get('keyid') ?? ''
  const signature = bytesOf(params.get('signature') ?? '')
  const headers = (params.get('headers') ?? 'date').toLowerCase().split(' ')
  if (keyId === '' || signature === null) return null
  if (headers.length > MOST_COVERED || headers.includes('') || new Set(headers).size < headers.length) return null
  return { keyId, algorithm: params.get('algorithm') ?? 'hmac-sha1', headers, signature }
}

/** Base64 with its padding, plain or percent-encoded in whatever case; null: anything else. */
function bytesOf(text: string): Buffer | null {
  const plain = text.replace(/%([0-9a-f]{2})/gi, (_, hex: string) => String.fromCharCode(Number.parseInt(hex, 16)))
  const bytes = Buffer.from(plain, 'base64')
  return bytes.length > 0 && bytes.toString('base64') === plain ? bytes : null
}
