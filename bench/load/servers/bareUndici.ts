import { createServer, type IncomingMessage, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import { type Dispatcher, Pool } from 'undici'

/*
 * The least that `node:http` and undici's `dispatch` cost together: what is above it is the gateway's own work. It checks
 * nothing and knows bodies in one direction only: never put it in front of anything. Argument: the upstream's address.
 */

const pool = new Pool(process.argv[2]!, { connections: 128, pipelining: 1, allowH2: false })
const authority = new URL(process.argv[2]!).host

class Answer implements Dispatcher.DispatchHandler {
  readonly res: ServerResponse

  constructor(res: ServerResponse) {
    this.res = res
  }

  onRequestStart(): void {}

  onResponseStart(controller: Dispatcher.DispatchController, status: number): void {
    const raw = controller.rawHeaders as Buffer[]
    const pairs: string[] = []
    for (let i = 0; i < raw.length; i += 2) {
      const name = raw[i]!.toString('latin1')
      if (!/^(connection|keep-alive|transfer-encoding)$/i.test(name)) pairs.push(name, raw[i + 1]!.toString('latin1'))
    }
    this.res.writeHead(status, pairs)
  }

  onResponseData(_: Dispatcher.DispatchController, chunk: Buffer): void {
    this.res.write(chunk)
  }

  onResponseEnd(): void {
    this.res.end()
  }

  onResponseError(): void {
    if (this.res.headersSent) this.res.destroy()
    else this.res.writeHead(502).end()
  }
}

function pass(req: IncomingMessage, res: ServerResponse): void {
  const raw = req.rawHeaders
  const headers = ['Host', authority]
  for (let i = 0; i < raw.length; i += 2) {
    if (!/^(host|connection|keep-alive)$/i.test(raw[i]!)) headers.push(raw[i]!, raw[i + 1]!)
  }
  pool.dispatch({ method: req.method as Dispatcher.HttpMethod, path: req.url!, headers, body: null }, new Answer(res))
}

const server = createServer(pass)
server.keepAliveTimeout = 75_000
server.listen(0, '127.0.0.1', () => {
  const { port } = server.address() as AddressInfo
  console.log(JSON.stringify({ msg: 'ready', gateway: `http://127.0.0.1:${port}`, pid: process.pid }))
})
