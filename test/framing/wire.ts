import { connect, type Socket } from 'node:net'
import type { Test } from 'tap'
import { rawUpstream } from '../helpers/upstream.ts'

/** One message as it stood on the wire. */
export interface Message {
  /** Request line or status line. */
  readonly line: string
  /** Raw pairs. */
  readonly pairs: readonly string[]
  readonly framing: 'none' | 'length' | 'chunked' | 'close'
  readonly body: string
  readonly trailers: readonly string[]
}

/** Reads messages from bytes (latin1) by the letter of RFC 9112; what it cannot read is an error. */
export class Messages {
  readonly all: Message[] = []
  rest = ''
  private readonly bodiless: (message: Omit<Message, 'framing' | 'body' | 'trailers'>) => boolean

  constructor(bodiless: (message: Omit<Message, 'framing' | 'body' | 'trailers'>) => boolean = () => false) {
    this.bodiless = bodiless
  }

  push(text: string): void {
    this.rest += text
    for (let length = this.one(); length > 0; length = this.one()) this.rest = this.rest.slice(length)
  }

  private one(): number {
    const end = this.rest.indexOf('\r\n\r\n')
    if (end < 0) return 0
    const [line = '', ...fields] = this.rest.slice(0, end).split('\r\n')
    const pairs = fields.flatMap(pair)
    const from = end + 4
    const lengths = values(pairs, 'content-length')
    const codings = values(pairs, 'transfer-encoding')
    if (lengths.length + codings.length > 1) throw new Error(`two framings: ${pairs}`)
    if (this.bodiless({ line, pairs })) return this.take(line, pairs, 'none', '', [], from)
    if (codings.length === 1) {
      if (codings[0] !== 'chunked') throw new Error(`Transfer-Encoding: ${codings[0]}`)
      return this.chunked(line, pairs, from)
    }
    if (lengths.length === 1) {
      if (!/^\d+$/.test(lengths[0]!)) throw new Error(`Content-Length: ${lengths[0]}`)
      const length = Number(lengths[0])
      if (this.rest.length < from + length) return 0
      return this.take(line, pairs, 'length', this.rest.slice(from, from + length), [], from + length)
    }
    return this.take(line, pairs, 'none', '', [], from)
  }

  private chunked(line: string, pairs: string[], from: number): number {
    let at = from
    let body = ''
    for (;;) {
      const eol = this.rest.indexOf('\r\n', at)
      if (eol < 0) return 0
      const size = /^[0-9a-f]+/i.exec(this.rest.slice(at, eol))
      if (size === null) throw new Error(`chunk size ${this.rest.slice(at, eol)}`)
      const length = Number.parseInt(size[0], 16)
      at = eol + 2
      if (length === 0) break
      if (this.rest.length < at + length + 2) return 0
      body += this.rest.slice(at, at + length)
      if (this.rest.slice(at + length, at + length + 2) !== '\r\n') throw new Error('a chunk that does not end')
      at += length + 2
    }
    const trailers: string[] = []
    for (;;) {
      const eol = this.rest.indexOf('\r\n', at)
      if (eol < 0) return 0
      const text = this.rest.slice(at, eol)
      at = eol + 2
      if (text === '') return this.take(line, pairs, 'chunked', body, trailers, at)
      trailers.push(...pair(text))
    }
  }

  private take(
    line: string,
    pairs: string[],
    framing: Message['framing'],
    body: string,
    trailers: string[],
    length: number
  ): number {
    this.all.push({ line, pairs, framing, body, trailers })
    return length
  }
}

function pair(text: string): [string, string] {
  const found = /^([^\s:]+):[ \t]*(.*?)[ \t]*$/.exec(text)
  if (found === null) throw new Error(`not a field line: ${JSON.stringify(text)}`)
  return [found[1]!, found[2]!]
}

/** Every value of a header, by its lower-case name. */
export function values(pairs: readonly string[], lower: string): string[] {
  const found: string[] = []
  for (let i = 0; i < pairs.length; i += 2) if (pairs[i]!.toLowerCase() === lower) found.push(pairs[i + 1]!)
  return found
}

export interface Recorder {
  readonly url: string
  readonly port: number
  /** Whole requests that came. */
  readonly requests: Message[]
  /** What came of requests that are not whole, and what could not be read, since it was last asked. */
  readonly odd: () => string[]
  readonly sockets: Set<Socket>
}

/** An upstream of raw bytes that writes down every request and answers each with `ok`. */
export async function recorder(t: Test, answer: (message: Message) => string = () => OK): Promise<Recorder> {
  const requests: Message[] = []
  const errors: string[] = []
  const sockets = new Map<Socket, Messages>()
  const server = await rawUpstream(t, socket => {
    const messages = new Messages()
    sockets.set(socket, messages)
    socket.on('close', () => {
      if (messages.rest !== '') errors.push(messages.rest)
      sockets.delete(socket)
    })
    socket.on('data', bytes => {
      try {
        messages.push(bytes.toString('latin1'))
      } catch (error) {
        errors.push(String(error))
        messages.rest = ''
      }
      for (const message of messages.all.splice(0)) {
        requests.push(message)
        socket.write(answer(message), 'latin1')
      }
    })
  })
  return {
    ...server,
    requests,
    sockets: sockets as unknown as Set<Socket>,
    odd: () => [...errors.splice(0), ...[...sockets.values()].map(each => each.rest).filter(rest => rest !== '')]
  }
}

export const OK = 'HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok'

/** Answers on a connection of one's own, and whether it has closed. */
export interface Wire {
  readonly socket: Socket
  readonly answers: Message[]
  /** All bytes that came, latin1. */
  readonly text: () => string
  readonly closed: () => boolean
  send(bytes: string): void
  /** Resolves once `ready`, looked at whenever something came or the connection closed; rejects after 10 s. */
  until(ready: () => boolean, what: string): Promise<void>
}

/** A connection that closes with the test. `methods`: those of the requests to come, where some have no body in their answers. */
export function wire(t: Test, url: string, methods: string[] = []): Wire {
  const { port } = new URL(url)
  const socket = connect(Number(port), '127.0.0.1')
  let text = ''
  let closed = false
  let look = () => {}
  const messages = new Messages(({ line }) => {
    const status = line.split(' ')[1]!
    if (/^1\d\d$/.test(status)) return true
    return methods.shift() === 'HEAD' || status === '204' || status === '304'
  })
  socket.on('error', () => {})
  socket.on('data', bytes => {
    text += bytes.toString('latin1')
    try {
      messages.push(bytes.toString('latin1'))
    } catch {
      // Left to what the test says about the text.
    }
    look()
  })
  socket.on('close', () => {
    closed = true
    look()
  })
  t.teardown(() => socket.destroy())
  return {
    socket,
    answers: messages.all,
    text: () => text,
    closed: () => closed,
    send: bytes => void socket.write(bytes, 'latin1'),
    until: (ready, what) =>
      new Promise((resolve, reject) => {
        if (ready()) return resolve()
        const timer = setTimeout(
          () => reject(new Error(`${what}: not within 10 s; so far ${JSON.stringify(text.slice(0, 400))}`)),
          10_000
        )
        look = () => {
          if (!ready()) return
          clearTimeout(timer)
          resolve()
        }
      })
  }
}

/** Resolves once `ready`; rejects after `ms`. For what nobody announces. */
export async function eventually(ready: () => boolean, what: string, ms = 10_000): Promise<void> {
  const until = Date.now() + ms
  while (!ready()) {
    if (Date.now() > until) throw new Error(`${what}: not within ${ms} ms`)
    await new Promise(resolve => setTimeout(resolve, 5))
  }
}
