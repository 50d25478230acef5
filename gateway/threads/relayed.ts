import { timingSafeEqual } from 'node:crypto'
import { mkdtempSync, rmSync } from 'node:fs'
import type { IncomingMessage, ServerResponse } from 'node:http'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import type { Random } from '../../config/world.ts'
import type { Peer } from '../exchange.ts'

/** Where the main thread takes requests from its threads, and what shows that they come from there. */
export interface RelayPlace {
  readonly path: string
  readonly secret: string
}

const SECRET_BYTES = 32
/** First of a relayed request's headers, and only there it counts: whatever a client sends stands behind it. */
const NAME = 'x-svc-relay'
/** What it takes in a head beside what the client sent. */
export const RELAY_HEAD_BYTES = 512
export const RELAY_FIELDS = 4

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

/** The pair that goes before all others: who asks, in which version. */
export function relayPair({ secret }: RelayPlace, version: string, peer: Peer): [name: string, value: string] {
  return [NAME, `${secret} ${version} ${peer.trusted ? 1 : 0} ${peer.secure ? 1 : 0} ${peer.address}`]
}

/**
 * Who really asked, of a request that a thread relayed; that pair leaves the request, which then is as the client sent it.
 * Null: no thread of ours sent it.
 */
export function relayedPeer({ secret }: RelayPlace): (req: IncomingMessage, res: ServerResponse) => Peer | null {
  const own = Buffer.from(secret)
  return (req, res) => {
    const [name, value = ''] = req.rawHeaders
    const [given = '', version, trusted, secure, address = ''] = value.split(' ')
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
      res.shouldKeepAlive = false
    }
    return { address, trusted: trusted === '1', secure: secure === '1' }
  }
}
