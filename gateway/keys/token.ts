import { hash } from 'node:crypto'
import { crc32 } from 'node:zlib'
import type { Random } from '../../config/world.ts'

const PREFIX = 'svc_'
const DIGITS = '0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz'
/** 30 base62 digits: 178 random bits. */
const BODY = 30
/** Six digits hold every 32-bit checksum: 62^6 is above 2^32. */
const CHECK = 6
const FORM = new RegExp(`^${PREFIX}[0-9A-Za-z]{${BODY + CHECK}}$`)

/** A new opaque token: prefix, random body, checksum of both, so that a scanner knows a leaked one without asking us. */
export function newToken(random: Random): string {
  let body = ''
  while (body.length < BODY) {
    for (const byte of random.bytes(BODY)) {
      // 248 = 4 × 62: bytes above would make some digits likelier than others.
      if (byte < 248 && body.length < BODY) body += DIGITS[byte % 62]
    }
  }
  return PREFIX + body + checksum(PREFIX + body)
}

/** Whether a text has the form of our tokens, its checksum included; says nothing about whether the key exists. */
export function looksLikeToken(text: string): boolean {
  return FORM.test(text) && text.endsWith(checksum(text.slice(0, -CHECK)))
}

function checksum(text: string): string {
  let rest = crc32(text)
  let digits = ''
  for (let i = 0; i < CHECK; i++) {
    digits = DIGITS[rest % 62] + digits
    rest = Math.floor(rest / 62)
  }
  return digits
}

/** Storage id of a generated token. */
export function tokenId(token: string): string {
  return hash('sha256', token, 'hex')
}

/** Storage id of a name that somebody chose, within its organisation: custom ids, user names, certificate ids. */
export function customId(org: string, id: string): string {
  return hash('sha256', `${org}\0${id}`, 'hex')
}

/** Longest key id, presented or chosen, in UTF-16 units. */
export const longestId = 512

/** What keeps a text from being the id of a key, or null. Ids that hash alike (NUL, lone surrogates) are kept out here. */
export function idFault(id: string, minLength: number): string | null {
  if (id.length < minLength) return `Key id must have at least ${minLength} characters`
  if (id.length > longestId) return `Key id must have at most ${longestId} characters`
  if (/[\0-\x1f\x7f]/.test(id)) return 'Key id must not contain control characters'
  if (!id.isWellFormed()) return 'Key id must be well-formed Unicode'
  if (id.trim() !== id) return 'Key id must not begin or end with white space'
  return null
}

/** The organisation that a key of a comparable system names inside itself: base64 of `{"org","id","h"}`; else null. */
export function embeddedOrg(key: string): string | null {
  if (!key.startsWith('ey') || key.length > longestId) return null
  try {
    const { org } = JSON.parse(Buffer.from(key, 'base64').toString()) as { org?: unknown }
    return typeof org === 'string' && org !== '' ? org : null
  } catch {
    return null
  }
}
