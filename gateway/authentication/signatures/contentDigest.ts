import { createHash } from 'node:crypto'
import type { Claim } from './claim.ts'
import type { Message } from './message.ts'

const FIELD = 'content-digest'
/** Those of RFC 9530 §5 that are sound; the others prove nothing and are passed over. */
const HASHES = new Map([
  ['sha-256', 'sha256'],
  ['sha-512', 'sha512']
])

/** The digests that the body must have, by their algorithm. */
export type Digests = readonly (readonly [hash: string, digest: Buffer])[]

/** What a signature says of the body; 'nothing': it does not cover `Content-Digest`; null: it does, but with no sound digest. */
export function digestsOf(message: Message, { components }: Claim): Digests | 'nothing' | null {
  const covering = components.filter(({ name }) => name === FIELD)
  if (covering.length === 0) return 'nothing'
  const members = message.dictionary(FIELD)
  if (members === null) return null
  const digests: [string, Buffer][] = []
  for (const [name, [value]] of members) {
    const hash = HASHES.get(name)
    if (hash === undefined) continue
    if (!(value instanceof ArrayBuffer)) return null
    digests.push([hash, Buffer.from(value)])
  }
  // Where single members are covered, those are the ones that count: anybody could add another.
  const isSound = covering.every(({ params }) => !params.has('key') || HASHES.has(String(params.get('key'))))
  return digests.length > 0 && isSound ? digests : null
}

/** Each digest that stands there must fit. */
export function fits(body: Buffer, digests: Digests): boolean {
  return digests.every(([hash, digest]) => createHash(hash).update(body).digest().equals(digest))
}
