import { names } from '../headers.ts'

/** The upstream sent what is no HTTP answer; becomes the fault `garbage`. */
export class Garbage extends Error {}

/** Most lines of a head or a trailer section. */
export const MOST_LINES = 1_000

const tableOf = (allowed: RegExp) =>
  Uint8Array.from({ length: 256 }, (_, code) => (allowed.test(String.fromCharCode(code)) ? 1 : 0))
/** Characters of a field name (RFC 9110 §5.6.2). */
const TOKEN = tableOf(/[!#$%&'*+.^_`|~0-9A-Za-z-]/)
/** Characters of a field value or a reason (RFC 9110 §5.5); other control characters never reach a client. */
const FIELD = tableOf(/[\t\x20-\x7e\x80-\xff]/)
/** The reason may be empty, or absent with its space, as some servers have it. */
const STATUS_LINE = /^HTTP\/1\.[01] [1-9]\d\d[ \r]/
/** Fits a safe integer whatever its digits are. */
const LENGTH = /^\d{1,15}$/
const TAB = 9
const LF = 10
const CR = 13
const SPACE = 32
const ZERO = 48
const COLON = 58

/** The head of an answer, and what it says about framing. One object reads head after head. */
export class AnswerHead {
  status = 0
  reason = ''
  /** Raw pairs, as they came. */
  pairs: string[] = []
  /** Value of `Content-Length`; -1: none. */
  length = -1
  chunked = false
  /** Another request may follow on the connection. */
  persistent = true
  /** Seconds after which the upstream closes an idle connection (`Keep-Alive: timeout`). */
  keepsFor = Number.POSITIVE_INFINITY

  /**
   * @param text all lines of a head, each with its CRLF, without the empty line
   * @throws Garbage on anything that RFC 9112 does not allow, or that two readers could take in two ways
   */
  read(text: string): void {
    if (!STATUS_LINE.test(text)) throw new Garbage('not a status line')
    const minor = text.charCodeAt(7) - ZERO
    this.status = (text.charCodeAt(9) - ZERO) * 100 + (text.charCodeAt(10) - ZERO) * 10 + (text.charCodeAt(11) - ZERO)
    const reasonFrom = text.charCodeAt(12) === CR ? 12 : 13
    const reasonTo = valueEnd(text, reasonFrom)
    this.reason = text.slice(reasonFrom, reasonTo)
    this.pairs = fieldPairs(text, reasonTo + 2)
    this.length = -1
    this.chunked = false
    this.persistent = minor === 1
    this.keepsFor = Number.POSITIVE_INFINITY
    this.frame()
    // Of two framings, and of a coding that the version does not know, nobody can tell the end (RFC 9112 §6.1, §6.3).
    if (this.chunked && (this.length >= 0 || minor === 0)) throw new Garbage('ambiguous framing')
  }

  private frame(): void {
    const { pairs } = this
    for (let i = 0; i < pairs.length; i += 2) {
      const name = pairs[i]!
      switch (name.length) {
        case 10: {
          const lower = name.toLowerCase()
          if (lower === 'connection') {
            if (names(pairs[i + 1]!.toLowerCase(), 'close')) this.persistent = false
          } else if (lower === 'keep-alive') {
            const timeout = /(?:^|[\s,])timeout="?(\d{1,9})/i.exec(pairs[i + 1]!)
            if (timeout !== null) this.keepsFor = Number(timeout[1])
          }
          break
        }
        case 14:
          if (name.toLowerCase() !== 'content-length') break
          // Equal duplicates too: the pairs go on to the client, and the next reader may judge otherwise.
          if (this.length >= 0 || !LENGTH.test(pairs[i + 1]!)) throw new Garbage('not one Content-Length')
          this.length = Number(pairs[i + 1]!)
          break
        case 17:
          if (name.toLowerCase() !== 'transfer-encoding') break
          if (this.chunked || pairs[i + 1]!.toLowerCase() !== 'chunked') throw new Garbage('unknown Transfer-Encoding')
          this.chunked = true
      }
    }
  }
}

/**
 * Raw pairs of the field lines from `at` on.
 * @param text lines, each with its CRLF
 */
export function fieldPairs(text: string, at: number): string[] {
  const pairs: string[] = []
  for (let lines = 1; at < text.length; lines++) {
    if (lines > MOST_LINES) throw new Garbage('too many lines')
    let colon = at
    while (TOKEN[text.charCodeAt(colon)] === 1) colon++
    // Covers folded lines and spaces before the colon.
    if (colon === at || text.charCodeAt(colon) !== COLON) throw new Garbage('not a field name')
    let from = colon + 1
    while (isBlank(text.charCodeAt(from))) from++
    const end = valueEnd(text, from)
    let to = end
    while (to > from && isBlank(text.charCodeAt(to - 1))) to--
    pairs.push(text.slice(at, colon), text.slice(from, to))
    at = end + 2
  }
  return pairs
}

function isBlank(code: number): boolean {
  return code === SPACE || code === TAB
}

/** Where the CRLF of this line stands, if all before it are characters of a value. */
function valueEnd(text: string, at: number): number {
  while (FIELD[text.charCodeAt(at)] === 1) at++
  if (text.charCodeAt(at) !== CR || text.charCodeAt(at + 1) !== LF) throw new Garbage('a control character in a line')
  return at
}
