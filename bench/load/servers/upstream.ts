import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'

/*
 * The upstream where nginx is missing or too simple. GET: a short JSON text, or as many bytes as the first argument says;
 * POST: takes the body in and answers with the short text.
 */

const size = Number(process.argv[2] ?? 0)
const short = Buffer.from(process.argv[3]!)
const chunk = Buffer.alloc(256 * 1024, 'x')

const server = createServer((req, res) => {
  if (size === 0 || req.method !== 'GET') {
    req.resume().once('end', () => {
      res.writeHead(200, { 'Content-Type': 'application/json', 'Content-Length': short.length }).end(short)
    })
    return
  }
  let left = size
  const more = () => {
    while (left > 0 && !res.destroyed) {
      const part = left < chunk.length ? chunk.subarray(0, left) : chunk
      left -= part.length
      if (!res.write(part)) return
    }
    res.end()
  }
  res.writeHead(200, { 'Content-Type': 'application/octet-stream', 'Content-Length': size })
  res.on('drain', more)
  more()
})
server.keepAliveTimeout = 75_000
server.listen(0, '127.0.0.1', () => {
  const { port } = server.address() as AddressInfo
  console.log(JSON.stringify({ msg: 'ready', gateway: `http://127.0.0.1:${port}`, pid: process.pid }))
})
