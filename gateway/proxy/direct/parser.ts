import type { UpstreamListener } from '../upstream.ts'
import { AnswerHead, fieldPairs, Garbage } from './head.ts'

/** Most bytes of a head or a trailer section. */
export const MOST_HEAD_BYTES = 65_536
/** Most 1xx before the answer. */
export const MOST_INFORMATIONS = 100
/** Most bytes of the extensions of one chunk, which nobody reads. */
export const MOST_EXTENSION_BYTES = 4_096
/** Digits of a chunk's size: 2^52 and less, so that it counts exactly. */
const MOST_SIZE_DIGITS = 13

/** A connection that once read a large head in parts does not keep the space. */
const MOST_KEPT_BYTES = 4_096

const NOTHING = Buffer.alloc(0)
const CRLF = Buffer.from('\r\n')
const HEAD_END = Buffer.from('\r\n\r\n')
const HTTP_1 = Buffer.from('HTTP/1.')
const LF = 10
const CR = 13
const SEMICOLON = 59

/** Value of a hexadecimal digit by its code; 255: none. */
const HEX = Uint8Array.from({ length: 256 }, (_, code) =>
  /[0-9a-f]/i.test(String.fromCharCode(code)) ? Number.parseInt(String.fromCharCode(code), 16) : 255
)

const HEAD = 0
const LENGTH = 1
const CHUNK_SIZE = 2
const CHUNK_EXTENSION = 3
const CHUNK_SIZE_LF = 4
const CHUNK_DATA = 5
const CHUNK_END_CR = 6
const CHUNK_END_LF = 7
const TRAILERS = 8
const UNTIL_CLOSE = 9
const DONE = 10

/**
 * Reads the answers of one connection from pieces of any size (RFC 9112), strictly, and hands head and data of each to
 * its listener. Pieces of bodies are parts of what came, never copies.
 */
export class AnswerParser {
  readonly answer = new AnswerHead()
  /** The listener takes no more; `read` stopped behind that piece. */
  full = false
  /** Of the answer that is done; null: none. */
  trailers: string[] | null = null
  private state = DONE
  private listener: UpstreamListener | null = null
  private headless = false
  private informations = 0
  /** Bytes that the body or the chunk still has. */
  private left = 0
  private digits = 0
  private extension = 0
  /** The part of a head or trailer section that has come so far. */
  private held: Buffer = NOTHING
  private heldBytes = 0

  /** The answer to one request begins. `method`: one to HEAD has no body. */
  begin(listener: UpstreamListener, method: string): void {
    this.listener = listener
    this.headless = method === 'HEAD'
    this.state = HEAD
    this.full = false
    this.trailers = null
    this.informations = 0
    this.heldBytes = 0
  }

  /** The head of the answer was told. */
  get headed(): boolean {
    return this.state !== HEAD
  }

  get done(): boolean {
    return this.state === DONE
  }

  /** Nothing more reaches the listener, not even of the piece that is being read. */
  halt(): void {
    this.state = DONE
    this.listener = null
  }

  /**
   * @returns how many bytes were read: fewer than there are when the listener is full or the answer done
   * @throws Garbage
   */
  read(bytes: Buffer): number {
    const end = bytes.length
    let at = 0
    while (at < end && !this.full) {
      switch (this.state) {
        case HEAD:
          at = this.head(bytes, at)
          break
        case LENGTH:
        case CHUNK_DATA:
          at = this.data(bytes, at)
          break
        case CHUNK_SIZE:
          at = this.size(bytes, at)
          break
        case CHUNK_EXTENSION:
          at = this.extensions(bytes, at)
          break
        case CHUNK_SIZE_LF:
          if (bytes[at++] !== LF) throw new Garbage('a chunk size without CRLF')
          if (this.left > 0) this.state = CHUNK_DATA
          else if (bytes[at] === CR && bytes[at + 1] === LF) {
            this.state = DONE
            return at + 2
          } else {
            this.state = TRAILERS
            // The section ends like a head does; the CRLF that a head has before its fields is the one just read.
            this.hold(CRLF, 0)
          }
          break
        case CHUNK_END_CR:
          if (bytes[at++] !== CR) throw new Garbage('a chunk that is longer than its size')
          this.state = CHUNK_END_LF
          break
        case CHUNK_END_LF:
          if (bytes[at++] !== LF) throw new Garbage('a chunk without CRLF')
          this.state = CHUNK_SIZE
          this.left = 0
          this.digits = 0
          break
        case TRAILERS:
          at = this.trailerSection(bytes, at)
          break
        case UNTIL_CLOSE:
          this.full = !this.listener!.data(at === 0 ? bytes : bytes.subarray(at))
          return end
        case DONE:
          return at
      }
    }
    return at
  }

  /** The connection has ended in good order; tells whether that completes the answer. */
  finish(): boolean {
    if (this.state !== UNTIL_CLOSE) return false
    this.state = DONE
    return true
  }

  private head(bytes: Buffer, at: number): number {
    const { answer } = this
    const text = this.section(bytes, at)
    if (text === null) return bytes.length
    at = this.sectionEnd
    answer.read(text)
    const { status } = answer
    if (status < 200) {
      if (status === 101) throw new Garbage('101 that nobody asked for')
      if (++this.informations > MOST_INFORMATIONS) throw new Garbage('too many 1xx')
      this.listener!.information(status, answer.pairs)
      return at
    }
    if (this.headless || status === 204 || status === 304) this.state = DONE
    else if (answer.chunked) {
      this.state = CHUNK_SIZE
      this.left = 0
      this.digits = 0
    } else if (answer.length >= 0) {
      this.left = answer.length
      this.state = answer.length === 0 ? DONE : LENGTH
    } else {
      answer.persistent = false
      this.state = UNTIL_CLOSE
    }
    this.listener!.head(status, answer.reason, answer.pairs)
    return at
  }

  private data(bytes: Buffer, at: number): number {
    const rest = bytes.length - at
    const to = this.left < rest ? at + this.left : bytes.length
    this.left -= to - at
    if (this.left === 0) this.state = this.state === LENGTH ? DONE : CHUNK_END_CR
    this.full = !this.listener!.data(at === 0 && to === bytes.length ? bytes : bytes.subarray(at, to))
    return to
  }

  private size(bytes: Buffer, at: number): number {
    for (; at < bytes.length; at++) {
      const code = bytes[at]!
      const digit = HEX[code]!
      if (digit !== 255) {
        if (++this.digits > MOST_SIZE_DIGITS) throw new Garbage('a chunk size without bound')
        this.left = this.left * 16 + digit
        continue
      }
      if (this.digits === 0) throw new Garbage('no chunk size')
      if (code === CR) this.state = CHUNK_SIZE_LF
      else if (code === SEMICOLON) {
        this.state = CHUNK_EXTENSION
        this.extension = 0
      } else throw new Garbage('not a chunk size')
      return at + 1
    }
    return at
  }

  private extensions(bytes: Buffer, at: number): number {
    for (; at < bytes.length; at++) {
      const code = bytes[at]!
      if (code === CR) {
        this.state = CHUNK_SIZE_LF
        return at + 1
      }
      if ((code < 32 && code !== 9) || code === 127) throw new Garbage('a control character in a chunk extension')
      if (++this.extension > MOST_EXTENSION_BYTES) throw new Garbage('a chunk extension without bound')
    }
    return at
  }

  private trailerSection(bytes: Buffer, at: number): number {
    const text = this.section(bytes, at)
    if (text === null) return bytes.length
    this.state = DONE
    const pairs = fieldPairs(text, CRLF.length)
    if (pairs.length > 0) this.trailers = pairs
    return this.sectionEnd
  }

  /** Where the section that `section` found ends in the piece. */
  private sectionEnd = 0

  /** The lines up to an empty one, or null while that has not come; what has is kept. */
  private section(bytes: Buffer, at: number): string | null {
    const before = this.heldBytes
    if (before === 0) {
      const found = bytes.indexOf(HEAD_END, at)
      if (found >= 0) {
        if (found + 2 - at > MOST_HEAD_BYTES) throw new Garbage('a head without bound')
        this.sectionEnd = found + 4
        return bytes.toString('latin1', at, found + 2)
      }
    }
    this.hold(bytes, at)
    const { held, heldBytes } = this
    const found = held.subarray(0, heldBytes).indexOf(HEAD_END, Math.max(0, before - 3))
    if (found < 0) {
      if (heldBytes > MOST_HEAD_BYTES + 1) throw new Garbage('a head without bound')
      this.checkHeld(before)
      return null
    }
    if (found + 2 > MOST_HEAD_BYTES) throw new Garbage('a head without bound')
    this.sectionEnd = at + found + 4 - before
    this.heldBytes = 0
    if (held.length > MOST_KEPT_BYTES) this.held = NOTHING
    return held.toString('latin1', 0, found + 2)
  }

  private hold(bytes: Buffer, at: number): void {
    const needed = this.heldBytes + bytes.length - at
    if (needed > this.held.length) {
      const larger = Buffer.allocUnsafeSlow(Math.max(512, needed, this.held.length * 2))
      this.held.copy(larger, 0, 0, this.heldBytes)
      this.held = larger
    }
    bytes.copy(this.held, this.heldBytes, at)
    this.heldBytes = needed
  }

  /** What can never become a head is refused now: its end may never come. */
  private checkHeld(before: number): void {
    const { held, heldBytes } = this
    if (this.state === HEAD && before < HTTP_1.length) {
      const seen = Math.min(heldBytes, HTTP_1.length)
      if (held.compare(HTTP_1, 0, seen, 0, seen) !== 0) throw new Garbage('not HTTP/1')
    }
    for (let i = before; i < heldBytes; i++) {
      const code = held[i]!
      if (code === 0 || (code === LF) !== (i > 0 && held[i - 1] === CR)) throw new Garbage('a line without CRLF')
    }
  }
}
