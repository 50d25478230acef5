import { createServer, type IncomingMessage, ServerResponse } from 'node:http'
import type { AddressInfo, Socket } from 'node:net'
import type { Duplex } from 'node:stream'
import type { Call } from '../../../streams/call.ts'
import type { No } from '../../../streams/refusals.ts'

/** What a test says about every call of its front. */
export interface Said {
  readonly key?: string
  readonly isByCookie?: boolean
  readonly secretHeaders?: readonly string[]
  readonly variables?: Readonly<Record<string, string>>
  /** Pairs that the API's own heads add. */
  readonly pairs?: readonly string[]
  readonly at?: () => number
}

export interface Front {
  readonly port: number
  readonly url: string
  readonly calls: Call[]
  /** Codes of refusals, in order. */
  readonly refused: string[]
  /** How many answers or connections have closed. */
  closed: number
}

/** A real HTTP server that makes calls as the gateway does, and hands them over. Closes with the test. */
export async function front(
  t: { teardown(run: () => unknown): unknown },
  handle: (call: Call) => void,
  said: Said = {}
): Promise<Front> {
  const sockets = new Set<Socket>()
  const server = createServer()
  server.on('connection', socket => {
    sockets.add(socket)
    socket.on('close', () => sockets.delete(socket))
  })
  const take = (req: IncomingMessage, res: ServerResponse, upgrade: Call['upgrade']) => {
    const call = callOf(req, res, upgrade, said, made.refused)
    made.calls.push(call)
    res.on('close', () => made.closed++)
    handle(call)
  }
  server.on('request', (req, res) => take(req, res, null))
  server.on('checkContinue', (req, res) => take(req, res, null))
  server.on('upgrade', (req: IncomingMessage, socket: Duplex, first: Buffer) => {
    socket.on('error', () => {})
    const res = new ServerResponse(req)
    res.shouldKeepAlive = false
    res.assignSocket(socket as Socket)
    res.on('finish', () => void socket.end())
    take(req, res, { socket, first })
  })
  await new Promise<void>(resolve => server.listen(0, '127.0.0.1', resolve))
  const { port } = server.address() as AddressInfo
  t.teardown(() => {
    for (const socket of sockets) socket.destroy()
    return new Promise(resolve => server.close(resolve))
  })
  const made: Front = { port, url: `http://127.0.0.1:${port}`, calls: [], refused: [], closed: 0 }
  return made
}

function callOf(req: IncomingMessage, res: ServerResponse, upgrade: Call['upgrade'], said: Said, refused: string[]) {
  const [path = '', query] = req.url!.split('?')
  const length = req.headers['content-length']
  let gone = false
  res.on('close', () => {
    gone = true
  })
  const answer = (status: number, pairs: readonly string[], body: Buffer | null) => {
    // As the gateway: what is not read to its end must not be taken for the next request.
    if (!req.complete && upgrade === null) {
      res.shouldKeepAlive = false
      const { socket } = req
      socket.destroySoon = () => {
        socket.end()
        socket.resume()
        setTimeout(() => socket.destroy(), 200).unref()
      }
    }
    res.writeHead(status, [...pairs, ...(said.pairs ?? []), 'Content-Length', String(body?.length ?? 0)])
    res.end(body ?? undefined)
  }
  const call: Call = {
    api: 'api',
    req,
    res,
    upgrade,
    method: req.method!,
    path,
    params: {},
    query: query === undefined ? '' : `?${query}`,
    at: said.at?.() ?? Date.now(),
    client: '127.0.0.1',
    bodyLength: length !== undefined ? Number(length) : req.headers['transfer-encoding'] === undefined ? 0 : -1,
    key: said.key ?? '',
    isByCookie: said.isByCookie ?? false,
    secretHeaders: new Set(said.secretHeaders ?? []),
    get isGone() {
      return gone
    },
    header: name => {
      const value = req.headers[name]
      return value === undefined ? null : typeof value === 'string' ? value : (value[0] ?? null)
    },
    variable: name => said.variables?.[name] ?? '',
    charge: () => Number.POSITIVE_INFINITY,
    answer,
    refuse(what: No) {
      refused.push(what.code)
      const body = Buffer.from(JSON.stringify({ error: what.message }))
      answer(what.status, ['x-svc-error', what.code, 'Content-Type', 'application/json', ...what.pairs], body)
    },
    head: (_status, pairs) => [...pairs, ...(said.pairs ?? [])],
    sent() {},
    onClose: listener => void res.once('close', listener)
  }
  return call
}

/** Resolves when it is true; the test fails after five seconds. */
export async function until(is: () => boolean): Promise<void> {
  const end = performance.now() + 5000
  while (!is()) {
    if (performance.now() > end) throw new Error('it did not come to that')
    await new Promise(resolve => setTimeout(resolve, 5))
  }
}
