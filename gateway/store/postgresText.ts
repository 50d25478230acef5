import { hash } from 'node:crypto'

/**
 * Names as PostgreSQL can hold them. Its text cannot hold NUL, so the first four characters become three each:
 * no character of such a triple stands for itself, and only U+0001 begins one, so that texts contain each other exactly
 * when their written forms do.
 */
const triples = ['\x01\x02\x02', '\x01\x02\x03', '\x01\x03\x02', '\x01\x03\x03']

const special = /[\0-\x03]/g
const written = /\x01[\x02\x03]{2}/g

export function toText(name: string): string {
  return name.replace(special, one => triples[one.charCodeAt(0)]!)
}

export function fromText(text: string): string {
  return text.includes('\x01') ? text.replace(written, one => String.fromCharCode(triples.indexOf(one))) : text
}

/** 128 bits of SHA-256, as PostgreSQL's `uuid`: indexes cannot hold names of any length. */
export function digestOf(name: string): string {
  return hash('sha256', name, 'hex').slice(0, 32)
}

/** In the place of an organisation's digest, for all of them together. */
export const everyOrg = '0'.repeat(32)
