import { createServer, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'

/*
 * The least that a fan-out costs: one `res.write` a client and message, as fast as the clients take them. Arguments: the frame;
 * how many clients to wait for, 0: it never writes.
 */

const frame = Buffer.from(process.argv[2]!)
const wanted = Number(process.argv[3])
const clients = new Set<ServerResponse>()

function round(): void {
  for (const res of clients) if (!res.writableNeedDrain) res.write(frame)
  if (clients.size > 0) setImmediate(round)
}

const server = createServer((_, res) => {
  res.socket!.setNoDelay(true)
  res.writeHead(200, { 'Content-Type': 'text/event-stream', 'Cache-Control': 'no-cache' }).flushHeaders()
  clients.add(res)
  res.on('close', () => clients.delete(res))
  if (clients.size === wanted) round()
})
server.listen(0, '127.0.0.1', () => {
  const { port } = server.address() as AddressInfo
  console.log(JSON.stringify({ msg: 'ready', gateway: `http://127.0.0.1:${port}`, pid: process.pid }))
})
