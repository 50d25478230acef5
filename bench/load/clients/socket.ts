import { connect, type Socket } from 'node:net'
import { DIGITS, MARK } from './job.ts'

/**
 * Clients of a stream as cheap as they can be: a request by hand, and then a search for the marks in whatever comes, without a
 * parser and without a buffer of their own.
 */

export interface Sink {
  /** `client`: which one, from 0. */
  arrived(client: number, number: number): void
  /** After each read. */
  read(): void
  lost(client: number): void
}

const head = {
  sse: (url: URL) => `GET ${url.pathname} HTTP/1.1\r\nHost: ${url.host}\r\nAccept: text/event-stream\r\n\r\n`,
  websocket: (url: URL) =>
    `GET ${url.pathname} HTTP/1.1\r\nHost: ${url.host}\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n` +
    'Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\n\r\n'
}
const status = { sse: 'HTTP/1.1 200', websocket: 'HTTP/1.1 101' }
const CONNECT_MS = 30_000

// A read is handed over before the next one begins: all sockets read into the same bytes.
const shared = Buffer.allocUnsafe(256 * 1024)

/** Resolves once the stream has begun. @throws Error with the answer's first line when it is not a stream */
export function open(url: URL, transport: 'sse' | 'websocket', client: number, to: Sink): Promise<Socket> {
  return new Promise((resolve, reject) => {
    let answer = ''
    let isOpen = false
    let number = 0
    let digits = DIGITS
    const timer = setTimeout(() => fail(`no answer in ${CONNECT_MS / 1000} s`), CONNECT_MS)
    const socket = connect({
      port: Number(url.port),
      host: url.hostname,
      onread: {
        buffer: shared,
        callback(length) {
          if (isOpen) count(0, length)
          else begin(length)
          return true
        }
      }
    })
    socket.setNoDelay(true)
    socket.write(head[transport](url))
    socket.on('error', () => {})
    socket.on('close', () => {
      if (isOpen) to.lost(client)
      else fail(`closed: ${answer.slice(0, 200)}`)
    })

    function fail(why: string): void {
      clearTimeout(timer)
      socket.destroy()
      reject(new Error(`client ${client}: ${why}`))
    }

    function begin(length: number): void {
      const before = answer.length
      answer += shared.toString('latin1', 0, length)
      const end = answer.indexOf('\r\n\r\n')
      if (end < 0) return
      if (!answer.startsWith(status[transport])) return fail(answer.slice(0, 500))
      isOpen = true
      clearTimeout(timer)
      resolve(socket)
      count(end + 4 - before, length)
    }

    function count(from: number, length: number): void {
      let at = from
      for (;;) {
        while (digits < DIGITS && at < length) {
          number = number * 10 + shared[at++]! - 48
          if (++digits === DIGITS) to.arrived(client, number)
        }
        if (at >= length) break
        at = shared.indexOf(MARK, at) + 1
        if (at === 0 || at > length) break
        number = 0
        digits = 0
      }
      to.read()
    }
  })
}
