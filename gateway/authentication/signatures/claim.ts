import { type BareItem, type InnerList, type Item, isInnerList } from 'structured-headers'
import type { Exchange } from '../../exchange.ts'
import { dictionaryOf } from './structured.ts'
import { fieldOf, MOST_COVERED } from './target.ts'

/** One labelled signature of a message, read but not verified (RFC 9421 §4). */
export interface Claim {
  readonly components: readonly Component[]
  /** Of `@signature-params`: components and parameters. */
  readonly input: InnerList
  readonly keyId: string
  /** Null: the signature names none. */
  readonly algorithm: string | null
  /** Seconds since the epoch; null: unsaid. */
  readonly created: number | null
  readonly expires: number | null
  readonly signature: Buffer
}

/** A component identifier (RFC 9421 §2). */
export interface Component {
  readonly name: string
  readonly params: ReadonlyMap<string, BareItem>
  readonly item: Item
}

/** Labels of one request that are looked at. */
const MOST_CLAIMS = 5

/**
 * The signatures of a request in their order, those beyond the first few and those that cannot be read left out; of one label
 * that stands twice the last counts, as in every dictionary (RFC 9651 §3.2). Null: the request has no signature.
 */
export function claimsOf(x: Exchange): readonly Claim[] | null {
  const inputField = fieldOf(x, 'signature-input')
  const signatureField = fieldOf(x, 'signature')
  if (inputField === null && signatureField === null) return null
  const inputs = dictionaryOf(inputField ?? '')
  const signatures = dictionaryOf(signatureField ?? '')
  if (inputs === null || signatures === null) return []
  const claims: Claim[] = []
  for (const [label, input] of [...inputs].slice(0, MOST_CLAIMS)) {
    const claim = claimOf(input, signatures.get(label))
    if (claim !== null) claims.push(claim)
  }
  return claims
}

function claimOf(input: Item | InnerList, signature: Item | InnerList | undefined): Claim | null {
  if (!isInnerList(input) || signature === undefined || !(signature[0] instanceof ArrayBuffer)) return null
  const [items, params] = input
  if (items.length > MOST_COVERED) return null
  const components: Component[] = []
  for (const item of items) {
    if (typeof item[0] !== 'string') return null
    components.push({ name: item[0], params: item[1], item })
  }
  const keyId = params.get('keyid')
  const algorithm = params.get('alg') ?? null
  const created = params.get('created') ?? null
  const expires = params.get('expires') ?? null
  if (typeof keyId !== 'string' || keyId === '') return null
  if (algorithm !== null && typeof algorithm !== 'string') return null
  if (!isSeconds(created) || !isSeconds(expires)) return null
  if (!isText(params.get('nonce')) || !isText(params.get('tag'))) return null
  return { components, input, keyId, algorithm, created, expires, signature: Buffer.from(signature[0]) }
}

function isSeconds(value: BareItem | null): value is number | null {
  return value === null || Number.isInteger(value)
}

function isText(value: BareItem | undefined): boolean {
  return value === undefined || typeof value === 'string'
}
