import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { WebSocketServer } from 'ws'

/*
 * The least that a fan-out to WebSockets costs: one `send` a client and message, as fast as the clients take them. Arguments: the
 * message; how many clients to wait for, 0: it never sends.
 */

const message = Buffer.from(process.argv[2]!)
const wanted = Number(process.argv[3])
const text = { binary: false }
/** As a stream of Node holds before it asks to wait. */
const high = 65_536

const server = createServer()
const sockets = new WebSocketServer({ server, perMessageDeflate: false })
const { clients } = sockets

function round(): void {
  for (const client of clients) if (client.bufferedAmount < high) client.send(message, text)
  if (clients.size > 0) setImmediate(round)
}

sockets.on('connection', client => {
  client.on('error', () => {})
  if (clients.size === wanted) round()
})
server.listen(0, '127.0.0.1', () => {
  const { port } = server.address() as AddressInfo
  console.log(JSON.stringify({ msg: 'ready', gateway: `http://127.0.0.1:${port}`, pid: process.pid }))
})
