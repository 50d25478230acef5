import type { TLSSocket } from 'node:tls'
import type { Test } from 'tap'
import { shake } from './secure.ts'

/** HTTP/2 byte by byte, to say what no library says. */

const PREFACE = 'PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n'
export const DATA = 0
export const HEADERS = 1
export const RESET = 3
export const SETTINGS = 4
export const PING = 6
export const GOAWAY = 7
export const CONTINUATION = 9
export const END_STREAM = 1
export const END_HEADERS = 4

export function frame(type: number, flags: number, stream: number, payload: Uint8Array = Buffer.alloc(0)): Buffer {
  const head = Buffer.alloc(9)
  head.writeUIntBE(payload.length, 0, 3)
  head[3] = type
  head[4] = flags
  head.writeUInt32BE(stream, 5)
  return Buffer.concat([head, payload])
}

/** Literals without a table and without compression (RFC 7541 §6.2.2). */
export function block(fields: readonly (readonly [string, string])[]): Buffer {
  return Buffer.concat(fields.flatMap(([name, value]) => [Buffer.of(0), text(name), text(value)]))
}

function text(value: string): Buffer {
  const bytes = Buffer.from(value, 'latin1')
  if (bytes.length < 127) return Buffer.concat([Buffer.of(bytes.length), bytes])
  const size = [127]
  let left = bytes.length - 127
  for (; left >= 128; left >>= 7) size.push((left & 127) | 128)
  return Buffer.concat([Buffer.from([...size, left]), bytes])
}

export interface Frame {
  readonly type: number
  readonly flags: number
  readonly stream: number
  readonly payload: Buffer
}

/** One connection; what comes is told frame by frame. */
export class Frames {
  readonly socket: TLSSocket
  readonly got: Frame[] = []
  readonly closed: Promise<void>
  #bytes: Buffer = Buffer.alloc(0)
  #look: () => void = () => {}

  constructor(socket: TLSSocket) {
    this.socket = socket
    socket.on('error', () => {})
    socket.on('data', bytes => this.#take(Buffer.from(bytes)))
    this.closed = new Promise(resolve => socket.once('close', () => resolve()))
    socket.once('close', () => this.#look())
  }

  send(...frames: Buffer[]): void {
    if (this.socket.writable) this.socket.write(Buffer.concat(frames))
  }

  /** `status:400`, `reset:1`, `goaway:11` or `closed`: what comes first for this stream. */
  outcome(stream: number): Promise<string> {
    return new Promise(resolve => {
      const look = () => {
        for (const { type, stream: of, payload } of this.got) {
          if (type === HEADERS && of === stream)
            return resolve(`status:${STATUS[payload[0]! & 0x7f] ?? payload.toString('hex')}`)
          if (type === RESET && of === stream) return resolve(`reset:${payload.readUInt32BE(0)}`)
          if (type === GOAWAY) return resolve(`goaway:${payload.readUInt32BE(4)}`)
        }
        if (this.socket.destroyed) resolve('closed')
      }
      this.#look = look
      look()
    })
  }

  #take(bytes: Buffer): void {
    this.#bytes = Buffer.concat([this.#bytes, bytes])
    while (this.#bytes.length >= 9 && this.#bytes.length >= 9 + this.#bytes.readUIntBE(0, 3)) {
      const length = this.#bytes.readUIntBE(0, 3)
      const stream = this.#bytes.readUInt32BE(5)
      this.got.push({
        type: this.#bytes[3]!,
        flags: this.#bytes[4]!,
        stream,
        payload: this.#bytes.subarray(9, 9 + length)
      })
      this.#bytes = this.#bytes.subarray(9 + length)
    }
    this.#look()
  }
}

/** Of the static table. */
const STATUS: Record<number, number> = { 8: 200, 9: 204, 10: 206, 11: 304, 12: 400, 13: 404, 14: 500 }

/** @param settings payload of the first SETTINGS: `00 04` and four bytes are the window of a stream */
export async function frames(t: Test, port: number, settings: Uint8Array = Buffer.alloc(0)): Promise<Frames> {
  const connection = new Frames(await shake(t, port, { ALPNProtocols: ['h2'] }))
  connection.send(Buffer.from(PREFACE), frame(SETTINGS, 0, 0, settings))
  return connection
}
