import { Agent, createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import httpProxy from 'http-proxy'

/* The reference: http-proxy as its users run it, with connections to the upstream kept. Argument: the upstream's address. */

const proxy = httpProxy.createProxyServer({
  target: process.argv[2]!,
  agent: new Agent({ keepAlive: true, maxSockets: 128 })
})
proxy.on('error', (_, req, res) => {
  if ('writeHead' in res && !res.headersSent) res.writeHead(502).end()
  else req.destroy()
})
const server = createServer((req, res) => proxy.web(req, res))
server.keepAliveTimeout = 75_000
server.listen(0, '127.0.0.1', () => {
  const { port } = server.address() as AddressInfo
  console.log(JSON.stringify({ msg: 'ready', gateway: `http://127.0.0.1:${port}`, pid: process.pid }))
})
