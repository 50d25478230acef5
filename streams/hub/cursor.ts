import { createHmac, createSecretKey, type KeyObject, timingSafeEqual } from 'node:crypto'

/**
 * Where a client goes on, as text that it keeps: `1.` and, for each topic in order (parted by `~`), `partition-offset` pairs
 * of the next records (parted by `_`), or `t` and milliseconds since the epoch; then a signature: `1.0-12345_1-99.<signature>`.
 * All characters are safe in a header, a query and an SSE `id`.
 */

/** What a cursor says: the next offset by topic and partition, or a time. */
export type Seen =
  | {
      readonly offsets: readonly ReadonlyMap<number, number>[]
      /** We made it: what it names exists. */
      readonly isSigned: boolean
      readonly timestamp: null
    }
  | { readonly timestamp: number }

/** Of a cursor and of what is read as one, in characters. */
export const LONGEST_CURSOR = 4096
/** 12 bytes as base64url. */
const SIGNATURE_LENGTH = 16
const SHAPE = /^(1\.(?:t(?:0|[1-9]\d{0,15})|[\d~_-]*))(?:\.([A-Za-z0-9_-]{16}))?$/
const PAIR = /^(0|[1-9]\d{0,9})-(0|[1-9]\d{0,15})$/

export class Cursors {
  readonly #key: KeyObject
  readonly #identity: string
  readonly #topics: number
  readonly #allowSeek: boolean

  /**
   * @param identity tells one stream from another: a cursor of one is none of the other
   * @param topics how many there are
   * @param allowSeek cursors of the client's own making count too
   */
  constructor(secret: Buffer, identity: readonly string[], topics: number, allowSeek: boolean) {
    this.#key = createSecretKey(secret)
    this.#identity = `${JSON.stringify(identity)}\n`
    this.#topics = topics
    this.#allowSeek = allowSeek
  }

  /** @param body without a version, as `bodyOfTime` and `Parts.body` make it; not longer than `fits` says */
  sign(body: string): string {
    const text = `1.${body}`
    return `${text}.${this.#signature(text)}`
  }

  /** Null: it is not one of this stream. */
  read(text: string): Seen | null {
    if (text.length > LONGEST_CURSOR) return null
    const match = SHAPE.exec(text)
    if (match === null) return null
    const [, signed, signature] = match
    if (signature === undefined ? !this.#allowSeek : !this.#isSigned(signed!, signature)) return null
    const body = signed!.slice(2)
    return body.startsWith('t') ? timeOf(body) : this.#offsetsOf(body, signature !== undefined)
  }

  #offsetsOf(body: string, isSigned: boolean): Seen | null {
    const groups = body.split('~')
    if (body === '' || groups.length > this.#topics) return null
    const offsets: Map<number, number>[] = []
    for (const group of groups) {
      const byPartition = new Map<number, number>()
      for (const pair of group === '' ? [] : group.split('_')) {
        const match = PAIR.exec(pair)
        if (match === null) return null
        const partition = Number(match[1])
        const offset = Number(match[2])
        if (byPartition.has(partition) || !Number.isSafeInteger(offset)) return null
        byPartition.set(partition, offset)
      }
      offsets.push(byPartition)
    }
    return { offsets, isSigned, timestamp: null }
  }

  #signature(text: string): string {
    const digest = createHmac('sha256', this.#key).update(this.#identity).update(text).digest('base64url')
    return digest.slice(0, SIGNATURE_LENGTH)
  }

  #isSigned(text: string, signature: string): boolean {
    return timingSafeEqual(Buffer.from(signature), Buffer.from(this.#signature(text)))
  }
}

export function bodyOfTime(ms: number): string {
  return `t${Math.max(0, Math.floor(ms))}`
}

/** A cursor with this body is not longer than what is read as one. */
export function fits(body: string): boolean {
  return body.length <= LONGEST_CURSOR - SIGNATURE_LENGTH - 3
}

function timeOf(body: string): Seen | null {
  const timestamp = Number(body.slice(1))
  // The last millisecond that a Date can hold.
  return timestamp <= 8_640_000_000_000_000 ? { timestamp } : null
}
