import { createServer, type IncomingMessage, type RequestListener, type Server, type ServerResponse } from 'node:http'
import { type AddressInfo, createServer as createRawServer, type Socket } from 'node:net'
import type { Test } from 'tap'

export interface TestUpstream {
  readonly url: string
  readonly port: number
  readonly server: Server
  /** Requests that came, in order. */
  readonly requests: IncomingMessage[]
}

/** A real HTTP server that closes with the test. */
export async function upstream(
  t: Test,
  answer: (req: IncomingMessage, res: ServerResponse) => void = (_req, res) => void res.end('ok')
): Promise<TestUpstream> {
  const requests: IncomingMessage[] = []
  const listener: RequestListener = (req, res) => {
    requests.push(req)
    answer(req, res)
  }
  const server = createServer({ keepAliveTimeout: 60_000 }, listener)
  await new Promise<void>(resolve => server.listen(0, '127.0.0.1', resolve))
  t.teardown(() => {
    server.closeAllConnections()
    server.close()
  })
  const { port } = server.address() as AddressInfo
  return { url: `http://127.0.0.1:${port}`, port, server, requests }
}

/** A server of raw bytes: `serve` gets each connection. */
export async function rawUpstream(
  t: Test,
  serve: (socket: Socket) => void
): Promise<{ url: string; port: number; close: () => Promise<void> }> {
  const sockets = new Set<Socket>()
  const server = createRawServer(socket => {
    sockets.add(socket)
    socket.on('error', () => {})
    socket.on('close', () => sockets.delete(socket))
    serve(socket)
  })
  await new Promise<void>(resolve => server.listen(0, '127.0.0.1', resolve))
  const close = () => {
    for (const socket of sockets) socket.destroy()
    return new Promise<void>(resolve => server.close(() => resolve()))
  }
  t.teardown(close)
  const { port } = server.address() as AddressInfo
  return { url: `http://127.0.0.1:${port}`, port, close }
}
