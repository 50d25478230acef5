import { timingSafeEqual, X509Certificate } from 'node:crypto'
import { mkdtempSync, rmSync } from 'node:fs'
import type { IncomingMessage, ServerResponse } from 'node:http'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setImmediate as nextTurn } from 'node:timers/promises'
import type { Random } from '../../config/world.ts'
import { type Presented, presentedOf } from '../certificates/presented.ts'
import type { Peer } from '../exchange.ts'
import { Recent } from '../keys/recent.ts'

/** Where the main thread takes requests from its threads, and what shows that they come from there. */
export interface RelayPlace {
  readonly path: string
  readonly secret: string
}

const SECRET_BYTES = 32
/** First of a relayed request's headers, and only there it counts: whatever a client sends stands behind it. */
const NAME = 'x-svc-relay'
/** Most characters of the certificates that a client has shown; intermediates beyond stay behind. */
const MOST_CERTIFICATES = 32_768
/** What it takes in a head beside what the client sent. */
export const RELAY_HEAD_BYTES = 512 + MOST_CERTIFICATES
/** Chains that are remembered, so that each is read once. */
const REMEMBERED = 1_000
export const RELAY_FIELDS = 4
/** So many turns without a request, and those that threads had sent by then have come; at most so many in all. */
const QUIET_TURNS = 4
const MOST_TURNS = 10_000

/** `opened` takes how it is removed. */
export function relayPlace(random: Random, opened: (() => unknown)[]): RelayPlace {
  const secret = random.bytes(SECRET_BYTES).toString('hex')
  const name = `svc-${random.bytes(12).toString('hex')}`
  // Linux has names outside of the file system: nothing of it is left after a kill, and none has to be writable.
  if (process.platform === 'linux') return { path: `\0${name}`, secret }
  const folder = mkdtempSync(join(tmpdir(), 'svc-'))
  opened.push(() => rmSync(folder, { recursive: true, force: true }))
  return { path: join(folder, 'relay'), secret }
}

/** The pair that goes before all others: who asks, in which version, and whether the connection may stay open. */
export function relayPair(
  { secret }: RelayPlace,
  version: string,
  stays: boolean,
  peer: Peer
): [name: string, value: string] {
  const { trusted, secure, address, presented } = peer
  const shown = presented === null ? '' : ` ${textOf(presented)}`
  return [NAME, `${secret} ${version} ${stays ? 1 : 0} ${trusted ? 1 : 0} ${secure ? 1 : 0} ${address}${shown}`]
}

const texts = new WeakMap<Presented, string>()

/** Leaf and intermediates, base64 of their DER, parted by commas. */
function textOf(presented: Presented): string {
  const known = texts.get(presented)
  if (known !== undefined) return known
  let text = presented.leaf.raw.toString('base64')
  for (const { raw } of presented.intermediates) {
    const next = raw.toString('base64')
    if (text.length + 1 + next.length > MOST_CERTIFICATES) break
    text += `,${next}`
  }
  texts.set(presented, text)
  return text
}

/** By text. */
const shown = new Recent<Presented>(REMEMBERED)

function presentedIn(text: string): Presented {
  const known = shown.get(text)
  if (known !== undefined) return known
  const [leaf, ...rest] = text.split(',').map(base64 => new X509Certificate(Buffer.from(base64, 'base64')))
  // A copy of its own: a part of a head would keep the whole head in memory.
  return shown.set(Buffer.from(text, 'latin1').toString('latin1'), presentedOf(leaf!, rest))
}

/** What threads relay to this one. */
export interface Relayed {
  /**
   * Who really asked; that pair leaves the request, which then is as the client sent it. Null: no thread of ours sent it.
   */
  readonly peerOf: (req: IncomingMessage, res: ServerResponse) => Peer | null
  /** Resolves when what threads have sent up to now has come. */
  settled(): Promise<void>
}

export function relayed({ secret }: RelayPlace): Relayed {
  const own = Buffer.from(secret)
  let count = 0
  const peerOf: Relayed['peerOf'] = (req, res) => {
    count++
    const [name, value = ''] = req.rawHeaders
    const [given = '', version, stays, trusted, secure, address = '', certificates] = value.split(' ')
    if (name !== NAME || given.length !== secret.length || !timingSafeEqual(Buffer.from(given), own)) return null
    // Both are made from the raw pairs when first asked for, by their count.
    delete req.headers[NAME]
    delete req.headersDistinct[NAME]
    req.rawHeaders.splice(0, 2)
    if (version === '1.0') {
      req.httpVersion = version
      req.httpVersionMinor = 0
      // As Node makes responses to such a request.
      res.useChunkedEncodingByDefault = false
      res.shouldKeepAlive = stays === '1'
    }
    const presented = certificates === undefined ? null : presentedIn(certificates)
    return { address, trusted: trusted === '1', secure: secure === '1', presented }
  }
  return {
    peerOf,
    async settled() {
      for (let turn = 0, quiet = 0; turn < MOST_TURNS && quiet < QUIET_TURNS; turn++) {
        const before = count
        await nextTurn()
        quiet = count === before ? quiet + 1 : 0
      }
    }
  }
}
