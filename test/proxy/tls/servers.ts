import { once } from 'node:events'
import { createServer } from 'node:https'
import type { AddressInfo } from 'node:net'
import type { TLSSocket, TlsOptions } from 'node:tls'
import type { Test } from 'tap'

export interface SecureServer {
  readonly port: number
  /** By its name. */
  readonly url: string
  readonly connections: TLSSocket[]
  /** Lets the requests for `/slow` go on; they wait until then. */
  readonly held: (() => void)[]
}

/** What `secureServer` tells of the connection that a request came over. */
export interface Seen {
  /** Common name of the client's certificate. */
  readonly cn: string | null
  readonly resumed: boolean
  readonly version: string
  readonly cipher: string
  readonly servername: string | false
  /** Which connection of this server it is. */
  readonly connection: number
}

/** A real https server, which answers with what it sees; it switches protocols when asked to, and echoes then. */
export async function secureServer(t: Test, options: TlsOptions): Promise<SecureServer> {
  const connections: TLSSocket[] = []
  const held: (() => void)[] = []
  const seen = (socket: TLSSocket): Seen => {
    const { subject } = socket.getPeerCertificate()
    return {
      cn: (subject?.CN as string | undefined) ?? null,
      resumed: socket.isSessionReused(),
      version: socket.getProtocol() ?? '',
      cipher: socket.getCipher().name,
      servername: (socket as unknown as { servername: string | false }).servername,
      connection: connections.indexOf(socket)
    }
  }
  const server = createServer({ keepAliveTimeout: 60_000, ...options }, (req, res) => {
    res.setHeader('Content-Type', 'application/json')
    const answer = () => void res.end(JSON.stringify(seen(req.socket as TLSSocket)))
    if (req.url === '/slow') held.push(answer)
    else answer()
  })
  server.on('upgrade', (req, socket) => {
    socket.on('error', () => {})
    socket.write(
      `HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nX-Seen: ${seen(req.socket as TLSSocket).cn}\r\n\r\n`
    )
    socket.pipe(socket)
  })
  server.on('secureConnection', (socket: TLSSocket) => {
    connections.push(socket)
    socket.on('error', () => {})
  })
  server.on('tlsClientError', () => {})
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  t.teardown(() => {
    for (const socket of connections) socket.destroy()
    server.close()
  })
  const { port } = server.address() as AddressInfo
  return { port, url: `https://localhost:${port}`, connections, held }
}
