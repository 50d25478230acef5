import { Agent, type ClientRequest, type IncomingMessage, request as requestTo } from 'node:http'
import type { Socket } from 'node:net'
import type { Duplex } from 'node:stream'
import { type Exchange, lingerOn, type Reply, type Waiter } from '../exchange.ts'
import type { Endings } from '../pipeline.ts'
import { type RelayPlace, relayPair } from './relayed.ts'

/** Hands a request to the main thread whole and untouched, and its answer back. */
export interface Relay {
  /** From here on its answer is the main thread's to give, and so is its line in the access log. */
  pass(x: Exchange): void
  close(): void
}

/** Dead clients of quiet streams are found by the kernel: the main thread sees only us. */
const KEEP_ALIVE_MS = 30_000
/** Idle connections to the main thread; one beyond is closed. */
const MOST_IDLE = 256
/** Longest head of an answer. */
const HEAD_BYTES = 65_536

export function relay(place: RelayPlace, endings: Endings): Relay {
  const agent = new Agent({ keepAlive: true, maxFreeSockets: MOST_IDLE })
  return {
    pass(x) {
      x.inner = true
      new Passing(x, endings).begin(place, agent)
    },
    close: () => agent.destroy()
  }
}

/** Each hop's own (RFC 9110 §7.6.1); what frames an answer's body is Node's to say again. */
const HOP = new Set(['connection', 'keep-alive', 'proxy-connection'])
const HOP_OF_ANSWER = new Set([...HOP, 'transfer-encoding'])
/** Node announces chunks for a request without a body, but for these. */
const BODILESS = new Set(['GET', 'HEAD', 'DELETE', 'OPTIONS', 'TRACE'])

class Passing implements Waiter {
  readonly #x: Exchange
  readonly #endings: Endings
  #request: ClientRequest | null = null
  #answer: IncomingMessage | null = null
  #far: Duplex | null = null
  #isAnswered = false

  constructor(x: Exchange, endings: Endings) {
    this.#x = x
    this.#endings = endings
  }

  begin(place: RelayPlace, agent: Agent): void {
    const { req, res, upgrade, peer, method, bodyLength } = this.#x
    res.waiter = this
    req.socket.setKeepAlive(true, KEEP_ALIVE_MS)
    const headers = [...relayPair(place, req.httpVersion, res.shouldKeepAlive, peer), ...without(HOP, req.rawHeaders)]
    if (upgrade !== null) headers.push('Connection', 'Upgrade')
    else if (bodyLength === 0 && !BODILESS.has(method) && req.headers['content-length'] === undefined)
      headers.push('Content-Length', '0')
    const request = requestTo({
      socketPath: place.path,
      method,
      path: req.url!,
      headers,
      // An upgraded connection is nobody else's afterwards.
      agent: upgrade === null ? agent : false,
      maxHeaderSize: HEAD_BYTES
    })
    this.#request = request
    request.on('continue', () => {
      if (!res.headersSent) res.writeContinue()
    })
    request.on('response', answer => this.#answered(answer))
    request.on('upgrade', (answer, far, first) => this.#switched(answer, far, first))
    request.on('error', cause => {
      if (!this.#isAnswered) this.#endings.fault(this.#x, cause)
      this.#isAnswered = true
    })
    if (upgrade !== null) {
      upgrade.socket.on('readable', notice)
      upgrade.socket.once('end', () => {
        if (this.#far === null) upgrade.socket.destroy()
      })
    }
    if (bodyLength === 0) return void request.end()
    request.flushHeaders()
    req.pipe(request, { end: false })
    req.once('end', () => {
      const { rawTrailers } = req
      if (rawTrailers.length > 0) request.addTrailers(pairsOf(rawTrailers))
      request.end()
    })
  }

  #answered(answer: IncomingMessage): void {
    if (this.#isAnswered) return void answer.destroy()
    this.#isAnswered = true
    this.#answer = answer
    const { req, res, upgrade } = this.#x
    if (upgrade !== null) {
      upgrade.socket.off('readable', notice)
      upgrade.socket.resume()
    }
    res.sendDate = false
    if (/\bclose\b/i.test(answer.headers.connection ?? '')) {
      // The main thread does not read the rest of the body either.
      if (req.complete || upgrade !== null) res.shouldKeepAlive = false
      else res.linger()
    }
    const pairs = without(HOP_OF_ANSWER, answer.rawHeaders)
    // Names the `Upgrade` that stands there too (RFC 9110 §7.8).
    if (/\bupgrade\b/i.test(answer.headers.connection ?? ''))
      pairs.push('Connection', res.shouldKeepAlive ? 'Upgrade' : 'Upgrade, close')
    res.writeHead(answer.statusCode!, answer.statusMessage!, pairs)
    answer.pipe(res, { end: false })
    answer.once('end', () => {
      if (answer.rawTrailers.length > 0 && res.chunkedEncoding) res.addTrailers(pairsOf(answer.rawTrailers))
      res.end()
    })
    answer.once('error', () => res.cutOff())
    // A body that came with the head leaves with it; other heads do not wait for theirs.
    setImmediate(flushHead, res)
  }

  #switched(answer: IncomingMessage, far: Duplex, first: Buffer): void {
    const { res, upgrade } = this.#x
    const near = upgrade!.socket
    this.#far = far
    near.off('readable', notice)
    if (this.#isAnswered || near.destroyed) return void far.destroy()
    this.#isAnswered = true
    res.statusCode = 101
    const lines = pairsOf(answer.rawHeaders).map(([name, value]) => `${name}: ${value}\r\n`)
    near.write(`HTTP/1.1 101 ${answer.statusMessage}\r\n${lines.join('')}\r\n`, 'latin1')
    if (first.length > 0) near.write(first)
    if (upgrade!.first.length > 0) far.write(upgrade!.first)
    far.on('error', () => near.destroy())
    far.once('close', () => lingerOn(near as Socket))
    far.pipe(near)
    near.pipe(far)
  }

  /** The client left, or its answer is complete. */
  closed(): void {
    const { req } = this.#x
    this.#isAnswered = true
    const request = this.#request!
    if (!request.writableFinished) {
      req.unpipe(request)
      req.resume()
      request.destroy()
    } else if (this.#answer?.complete !== true) request.destroy()
    this.#far?.destroy()
  }
}

/** Reads on to the end of what came when nothing waits: the end is told only then. */
function notice(this: Duplex): void {
  if (this.readableLength === 0) this.read(0)
}

function flushHead(res: Reply): void {
  if (!res.writableEnded && !res.destroyed) res.flushHeaders()
}

function without(names: ReadonlySet<string>, pairs: readonly string[]): string[] {
  const left: string[] = []
  for (let i = 0; i < pairs.length; i += 2) if (!names.has(pairs[i]!.toLowerCase())) left.push(pairs[i]!, pairs[i + 1]!)
  return left
}

function pairsOf(raw: readonly string[]): [string, string][] {
  const pairs: [string, string][] = []
  for (let i = 0; i < raw.length; i += 2) pairs.push([raw[i]!, raw[i + 1]!])
  return pairs
}
