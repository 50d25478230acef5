import { RE2JS, RE2JSException } from 're2js'
import { Invalid } from '../config/validate.ts'

/**
 * Paths as rules read them, and rules that match them.
 *
 * Rules see a path in its *normal form*, the coarsest reading that any upstream could give to it, so that a `block` is
 * not passed, nor an `allow` widened, by another spelling of the same path:
 *
 * - `\`, `%2F` and `%5C` count as `/`: many servers decode before they route. A parameter with an encoded slash is
 *   therefore several segments; a rule that means it ends in `/*` or says `{name:.*}`.
 * - Repeated slashes are one.
 * - `;` ends a segment (`/admin;x` is `/admin`): servlet containers cut such parameters before they route. Rules are
 *   cut in the same way, so they cannot tell `/map;v=1` from `/map;v=2`.
 * - Dot segments are resolved, also `%2e%2e`, `..;x` and those behind `%2F`; above the root is the root.
 * - Other visible ASCII is decoded, all else is percent-encoded in upper case. `%25` stays (nothing is decoded twice);
 *   a `%` that begins no escape is written so too.
 *
 * A slash at the end counts: `/a/` is another path than `/a` (OpenAPI says so). Whoever must be sure uses `allow`: no
 * list of blocked paths knows which further spellings an upstream takes for the same.
 */

export interface Matching {
  /** How a rule lies on the path: over all of it, on its beginning, or anywhere in it. */
  readonly matching: 'exact' | 'prefix' | 'contains'
  readonly ignoreCase: boolean
}

export type PathRule = (path: string) => boolean

const SLASH = 0x2f
const DOT = 0x2e
const PERCENT = 0x25
const BACKSLASH = 0x5c
const SEMICOLON = 0x3b

/** What never stands in a normal form, or only in one spelling: 1 for each such ASCII code. */
const SPECIAL = Uint8Array.from({ length: 128 }, (_, code) =>
  code <= 0x20 ||
  code === 0x7f ||
  code === PERCENT ||
  code === BACKSLASH ||
  code === SEMICOLON ||
  code === 0x23 ||
  code === 0x3f
    ? 1
    : 0
)

// One run of the regular expression engine costs half of a loop over the characters (37 characters: 190 against 400 ns).
const NOT_PLAIN = /[^\w\-~:@!$&'()*+,=./]|\/[./]/

/** Whether both readings below would give the path back as it is. */
export function isPlainPath(raw: string): boolean {
  return !NOT_PLAIN.test(raw)
}

/** The form in which rules match a path (see above). A path with nothing special comes back as it is. */
export function normalPath(raw: string): string {
  for (let i = 0; i < raw.length; i++) {
    const code = raw.charCodeAt(i)
    if (code === SLASH) {
      const next = raw.charCodeAt(i + 1)
      if (next === SLASH || next === DOT) return normal(raw)
    } else if (code >= 128 || SPECIAL[code] === 1) return normal(raw)
  }
  return raw
}

/**
 * The path as it goes upstream: dot segments resolved by the reading above, otherwise as the client wrote it. So
 * `normalPath(resolveDots(raw)) === normalPath(raw)`.
 */
export function resolveDots(raw: string): string {
  for (let i = 0; i < raw.length; i++) {
    const code = raw.charCodeAt(i)
    if (code === SLASH || code === BACKSLASH) {
      if (raw.charCodeAt(i + 1) === DOT) return resolved(raw)
    } else if (code === PERCENT && startsDotOrSlash(raw, i)) return resolved(raw)
  }
  return raw
}

/**
 * What stands behind the first `count` segments of a path, as written, beginning with `/`: how a listen path is
 * stripped from the path that goes upstream.
 */
export function behindSegments(raw: string, count: number): string {
  if (count === 0) return raw
  let left = count
  let at = 0
  while (at < raw.length) {
    const start = at + separatorLength(raw, at)
    const end = segmentEnd(raw, start)
    if (left === 0) return `/${raw.slice(start)}`
    if (bare(raw.slice(start, end)) !== '') left--
    at = end
  }
  return '/'
}

function normal(raw: string): string {
  if (raw.charCodeAt(0) !== SLASH) return raw
  const { segments } = pieces(raw)
  let path = ''
  for (const segment of segments) {
    const text = canonical(bare(segment))
    if (text !== '') path += `/${text}`
  }
  return bare(segments[segments.length - 1]!) === '' ? `${path}/` : path
}

function resolved(raw: string): string {
  if (raw.charCodeAt(0) !== SLASH) return raw
  const { segments, separators } = pieces(raw)
  let path = `/${segments[0]}`
  for (let i = 1; i < segments.length; i++) path += separators[i]! + segments[i]!
  return path
}

/** Segments with the separators before them, without dot segments; at least one, empty when the path ends in a slash. */
function pieces(raw: string): { segments: string[]; separators: string[] } {
  const segments: string[] = []
  const separators: string[] = []
  let at = 0
  while (at < raw.length) {
    const length = separatorLength(raw, at)
    const end = segmentEnd(raw, at + length)
    const segment = raw.slice(at + length, end)
    const name = dotName(bare(segment))
    if (name === '..') {
      // Empty segments go with the one before them: a server that merges slashes first must come to the same path.
      while (segments.length > 0) {
        separators.pop()
        if (bare(segments.pop()!) !== '') break
      }
    }
    if (name !== '..' && name !== '.') {
      segments.push(segment)
      separators.push(raw.slice(at, at + length))
    } else if (end === raw.length) {
      segments.push('')
      separators.push('/')
    }
    at = end
  }
  return { segments, separators }
}

/** 0 when nothing that counts as a slash stands there. */
function separatorLength(raw: string, at: number): number {
  const code = raw.charCodeAt(at)
  if (code === SLASH || code === BACKSLASH) return 1
  if (code !== PERCENT) return 0
  const byte = escaped(raw, at)
  return byte === SLASH || byte === BACKSLASH ? 3 : 0
}

function segmentEnd(raw: string, at: number): number {
  while (at < raw.length && separatorLength(raw, at) === 0) at++
  return at
}

/** A segment without its parameters (`;…`). */
function bare(segment: string): string {
  for (let i = 0; i < segment.length; i++) {
    const code = segment.charCodeAt(i)
    if (code === SEMICOLON || (code === PERCENT && escaped(segment, i) === SEMICOLON)) return segment.slice(0, i)
  }
  return segment
}

/** `.` or `..` when the segment is one in any spelling. */
function dotName(segment: string): string {
  return segment.length <= 6 ? segment.replace(/%2e/gi, '.') : ''
}

function startsDotOrSlash(raw: string, at: number): boolean {
  const byte = escaped(raw, at)
  return byte === DOT || byte === SLASH || byte === BACKSLASH
}

/** The byte of a percent-escape; -1 when it is none. */
function escaped(raw: string, at: number): number {
  const high = hex(raw.charCodeAt(at + 1))
  const low = hex(raw.charCodeAt(at + 2))
  return high === -1 || low === -1 ? -1 : high * 16 + low
}

function hex(code: number): number {
  if (code >= 0x30 && code <= 0x39) return code - 0x30
  const letter = code | 0x20
  return letter >= 0x61 && letter <= 0x66 ? letter - 0x57 : -1
}

/** One spelling for the text of a segment. */
function canonical(text: string): string {
  let out = ''
  for (let i = 0; i < text.length; i++) {
    const code = text.charCodeAt(i)
    if (code === PERCENT) {
      const byte = escaped(text, i)
      if (byte === -1) out += '%25'
      else {
        out += byte >= 128 || SPECIAL[byte] === 1 ? percent(byte) : String.fromCharCode(byte)
        i += 2
      }
    } else if (code < 128) out += SPECIAL[code] === 1 ? percent(code) : text[i]
    else {
      const letter = String.fromCodePoint(text.codePointAt(i)!)
      for (const byte of Buffer.from(letter)) out += percent(byte)
      i += letter.length - 1
    }
  }
  return out
}

function percent(byte: number): string {
  return `%${byte < 16 ? '0' : ''}${byte.toString(16).toUpperCase()}`
}

// Rules

const MAX_PATTERN = 2048
/** Instructions of a compiled expression: its memory, and with the path's length its worst time. */
const MAX_PROGRAM = 2000
/** What compiling costs beside the instructions, in instructions. */
const BASE_COST = 20
/** What a class of Unicode's takes, in instructions. */
const UNICODE_COST = 50
/** Instructions of all expressions that are remembered. */
const REMEMBERED = 200_000

/**
 * How much may be compiled for one key or document, in instructions: 10,000 take some 50 ms, during which no request is
 * served. Literal patterns and those of plain parameters cost nothing; what stands there twice costs once.
 */
export class CompileBudget {
  #left: number
  readonly #taken = new Set<string>()

  constructor(instructions: number) {
    this.#left = instructions
  }

  get isSpent(): boolean {
    return this.#left < 0
  }

  has(name: string): boolean {
    return this.#taken.has(name)
  }

  /** @throws Invalid when that is too much; then nothing more is compiled */
  take(name: string, cost: number): void {
    if (this.has(name)) return
    this.#taken.add(name)
    this.#left -= cost
    if (this.isSpent) throw tooMuch()
  }
}

/**
 * Compiles the pattern of a rule (semantics §3.8, §12.9). What comes back takes a path in normal form.
 *
 * - `{name}` is the text of one segment or of a part of it, at least a character; `{name:regex}` what the regex takes;
 *   a segment `*` is one segment, or everything, slashes included, where it is the last.
 * - A pattern that begins with `^`, ends with `$` or holds `[`, `|`, `\`, `(?`, `.*` or `.+` outside of braces is a
 *   regular expression, in which the forms above may stand as well.
 * - All else is literal, in any spelling (`normalPath`); a missing slash at its beginning is added, except with
 *   `contains`.
 *
 * @param budget what it may cost
 * @throws Invalid when it does not compile or costs too much; expressions are those of RE2, which take linear time
 */
export function pathRule(
  pattern: string,
  { matching, ignoreCase }: Matching,
  budget = new CompileBudget(Number.POSITIVE_INFINITY)
): PathRule {
  if (pattern.length > MAX_PATTERN) throw invalid(`is longer than ${MAX_PATTERN} characters`)
  const rooted = matching === 'contains' || /^[/^]/.test(pattern) ? pattern : `/${pattern}`
  const parts = partsOf(rooted)
  if (isExpression(rooted, parts))
    return expressionRule(expressionSource(parts, budget), { matching, ignoreCase }, budget)
  const segments = segmentsOf(parts)
  const literal = segments.every(isLiteral)
  if (literal)
    return literalRule(segments.map(([part]) => (part as Text | undefined)?.text ?? '').join('/'), {
      matching,
      ignoreCase
    })
  const simple = matching === 'contains' ? null : segmentRule(segments, matching, ignoreCase)
  return simple ?? expressionRule(templateSource(segments, budget), { matching, ignoreCase }, budget)
}

/** Whether a pattern is plain text that `exact` compares as a whole; then it is this text in normal form, else null. */
export function literalPath(pattern: string): string | null {
  if (pattern.includes('{')) return null
  const parts = partsOf(pattern)
  if (isExpression(pattern, parts)) return null
  const segments = segmentsOf(parts)
  return segments.every(isLiteral) ? segments.map(([part]) => (part as Text | undefined)?.text ?? '').join('/') : null
}

/**
 * Precedence of rules (semantics §3.8), for `sort`: parameters stripped, more slashes first, then the longer, then by
 * alphabet; of two that are equal then, the one with fewer parameters.
 */
export function comparePaths(a: string, b: string): number {
  return compareRanks(rankOf(a), rankOf(b))
}

/** The same for very many, in a list of their own: each is looked at once. */
export function inPrecedence<T>(items: readonly T[], pathOf: (item: T) => string): T[] {
  return items
    .map(item => ({ item, rank: rankOf(pathOf(item)) }))
    .sort((a, b) => compareRanks(a.rank, b.rank))
    .map(({ item }) => item)
}

interface Rank {
  readonly path: string
  readonly text: string
  readonly slashes: number
  readonly parameters: number
}

function rankOf(path: string): Rank {
  const text = stripped(path)
  return { path, text, slashes: count(text, '/'), parameters: count(path, '{') }
}

function compareRanks(a: Rank, b: Rank): number {
  return (
    b.slashes - a.slashes ||
    b.text.length - a.text.length ||
    order(a.text, b.text) ||
    a.parameters - b.parameters ||
    order(a.path, b.path)
  )
}

interface Text {
  readonly kind: 'text'
  readonly text: string
}
/** `regex` null: any text without a slash. */
interface Parameter {
  readonly kind: 'parameter'
  readonly regex: string | null
}
interface Star {
  readonly kind: 'star'
}
type Part = Text | Parameter | Star

/** Text and parameters of a pattern. @throws Invalid when braces do not pair or a parameter has no name */
function partsOf(pattern: string): (Text | Parameter)[] {
  const parts: (Text | Parameter)[] = []
  let text = ''
  let i = 0
  while (i < pattern.length) {
    const letter = pattern[i]!
    if (letter === '}') throw invalid('has a } without {')
    // {2} and {1,3} repeat in an expression; a parameter's name begins with something else than a digit or comma.
    const repeat = letter === '{' ? /^\{\d+(,\d*)?\}/.exec(pattern.slice(i)) : null
    if (repeat !== null) {
      text += repeat[0]
      i += repeat[0].length
    } else if (letter === '{') {
      const end = closing(pattern, i)
      const inner = pattern.slice(i + 1, end)
      const colon = inner.indexOf(':')
      const name = colon === -1 ? inner : inner.slice(0, colon)
      if (name === '' || /[{}/]/.test(name)) throw invalid('has a parameter without a proper name')
      if (colon === inner.length - 1) throw invalid(`has no expression behind {${name}:`)
      if (text !== '') parts.push({ kind: 'text', text })
      parts.push({ kind: 'parameter', regex: colon === -1 ? null : inner.slice(colon + 1) })
      text = ''
      i = end + 1
    } else {
      text += letter
      i++
    }
  }
  if (text !== '' || parts.length === 0) parts.push({ kind: 'text', text })
  return parts
}

function closing(pattern: string, open: number): number {
  let depth = 0
  for (let i = open; i < pattern.length; i++) {
    if (pattern[i] === '\\') i++
    else if (pattern[i] === '{') depth++
    else if (pattern[i] === '}' && --depth === 0) return i
  }
  throw invalid('has a { without }')
}

function isExpression(pattern: string, parts: readonly (Text | Parameter)[]): boolean {
  if (pattern.startsWith('^') || pattern.endsWith('$')) return true
  return parts.some(part => part.kind === 'text' && /[[|\\]|\(\?|\.[*+]|\{\d/.test(part.text))
}

/** A pattern's segments in normal form: the parts between slashes; a pattern that ends in a slash ends in an empty one. */
function segmentsOf(parts: readonly (Text | Parameter)[]): Part[][] {
  const raw: (Text | Parameter)[][] = [[]]
  for (const part of parts) {
    if (part.kind === 'parameter') raw.at(-1)!.push(part)
    else
      for (const [i, text] of part.text.split(/\/|%2f|%5c/i).entries()) {
        if (i > 0) raw.push([])
        if (text !== '') raw.at(-1)!.push({ kind: 'text', text })
      }
  }
  const segments: Part[][] = []
  for (const [i, given] of raw.entries()) {
    const last = i === raw.length - 1
    const segment = normalSegment(given, last)
    // The first is what stands before the first slash.
    if (segment.length > 0 || last || i === 0) segments.push(segment)
  }
  return segments
}

function normalSegment(given: readonly (Text | Parameter)[], last: boolean): Part[] {
  const out: Part[] = []
  for (const part of given) {
    if (part.kind === 'parameter') out.push(part)
    else {
      const text = bare(part.text)
      const before = out.at(-1)
      if (text !== '') {
        if (before?.kind === 'text') out[out.length - 1] = { kind: 'text', text: before.text + canonical(text) }
        else out.push({ kind: 'text', text: canonical(text) })
      }
      if (text !== part.text) break
    }
  }
  const only = out.length === 1 && out[0]!.kind === 'text' ? out[0]!.text : null
  if (only === '.' || only === '..') throw invalid('has a dot segment, which no request has when rules see it')
  if (only === '*') return [last ? { kind: 'star' } : { kind: 'parameter', regex: null }]
  return out
}

function isLiteral(segment: readonly Part[]): boolean {
  return segment.length === 0 || (segment.length === 1 && segment[0]!.kind === 'text')
}

function literalRule(text: string, { matching, ignoreCase }: Matching): PathRule {
  if (ignoreCase) {
    const lower = text.toLowerCase()
    if (matching === 'exact') return path => path.length === lower.length && path.toLowerCase() === lower
    if (matching === 'prefix') return path => path.toLowerCase().startsWith(lower)
    return path => path.toLowerCase().includes(lower)
  }
  if (matching === 'exact') return path => path === text
  if (matching === 'prefix') return path => path.startsWith(text)
  return path => path.includes(text)
}

/** A segment as `before` + anything + `after`, or just `before` when `after` is null. */
interface Step {
  readonly before: string
  readonly after: string | null
}

/** Null when a segment is more than text around one plain parameter. */
function segmentRule(
  segments: readonly (readonly Part[])[],
  matching: 'exact' | 'prefix',
  ignoreCase: boolean
): PathRule | null {
  const steps: Step[] = []
  let open = false
  for (const segment of segments.slice(1)) {
    if (segment[0]?.kind === 'star') open = true
    else {
      const step = stepOf(segment, ignoreCase)
      if (step === null) return null
      steps.push(step)
    }
  }
  const lies = matching === 'exact' || open ? takes : begins
  return path => lies(ignoreCase ? path.toLowerCase() : path, steps, open)
}

function stepOf(segment: readonly Part[], ignoreCase: boolean): Step | null {
  let before = ''
  let after: string | null = null
  for (const part of segment) {
    if (part.kind === 'text') {
      const text = ignoreCase ? part.text.toLowerCase() : part.text
      if (after === null) before += text
      else after += text
    } else if (part.kind === 'star' || part.regex !== null || after !== null) return null
    else after = ''
  }
  return { before, after }
}

/** `open`: anything may follow behind a slash. */
function takes(path: string, steps: readonly Step[], open: boolean): boolean {
  let at = 0
  for (let i = 0; i < steps.length; i++) {
    if (path.charCodeAt(at) !== SLASH) return false
    const start = at + 1
    let end = path.indexOf('/', start)
    if (end === -1) end = path.length
    const { before, after } = steps[i]!
    if (!path.startsWith(before, start)) return false
    if (after === null) {
      if (end - start !== before.length) return false
    } else if (end - start <= before.length + after.length || !path.startsWith(after, end - after.length)) return false
    at = end
  }
  return open ? path.charCodeAt(at) === SLASH : at === path.length
}

/** As `takes`, where anything may follow the last step, in its segment too. */
function begins(path: string, steps: readonly Step[]): boolean {
  let at = 0
  for (let i = 0; i < steps.length; i++) {
    if (path.charCodeAt(at) !== SLASH) return false
    const start = at + 1
    let end = path.indexOf('/', start)
    if (end === -1) end = path.length
    const { before, after } = steps[i]!
    if (!path.startsWith(before, start)) return false
    const isLast = i === steps.length - 1
    if (after === null) {
      if (!isLast && end - start !== before.length) return false
    } else if (end - start <= before.length + after.length) return false
    else if (isLast) {
      const found = path.indexOf(after, start + before.length + 1)
      return found !== -1 && found + after.length <= end
    } else if (!path.startsWith(after, end - after.length)) return false
    at = end
  }
  return true
}

/** A whole expression: its own text with parameters and stars put in. */
function expressionSource(parts: readonly (Text | Parameter)[], budget: CompileBudget): string {
  let source = ''
  for (const part of parts) source += part.kind === 'text' ? part.text : parameterSource(part, budget)
  // Twice, because neighbouring stars share a slash.
  for (let i = 0; i < 2; i++) source = source.replaceAll('/*/', '/[^/]+/')
  return source.endsWith('/*') ? `${source.slice(0, -1)}.*` : source
}

function templateSource(segments: readonly (readonly Part[])[], budget: CompileBudget): string {
  return segments
    .map(segment =>
      segment
        .map(part =>
          part.kind === 'text' ? RE2JS.quote(part.text) : part.kind === 'star' ? '.*' : parameterSource(part, budget)
        )
        .join('')
    )
    .join('/')
}

function parameterSource({ regex }: Parameter, budget: CompileBudget): string {
  if (regex === null) return '[^/]+'
  compiled(regex, 0, budget)
  return `(?:${regex})`
}

function expressionRule(source: string, { matching, ignoreCase }: Matching, budget: CompileBudget): PathRule {
  const flags = ignoreCase ? RE2JS.CASE_INSENSITIVE : 0
  // On its own first: a stray ) must not close the group around it.
  const alone = compiled(source, flags, budget)
  if (matching === 'contains') return path => alone.test(path)
  if (matching === 'exact') return path => alone.testExact(path)
  const anchored = compiled(`^(?:${source})`, flags, budget)
  return path => anchored.test(path)
}

/** Compiled expressions, those used least lately first: what was checked just now is soon needed by requests. */
const remembered = new Map<string, RE2JS>()
let rememberedSize = 0

function compiled(source: string, flags: number, budget: CompileBudget): RE2JS {
  const name = `${flags} ${source}`
  if (budget.isSpent && !budget.has(name)) throw tooMuch()
  const known = remembered.get(name)
  if (known !== undefined) {
    budget.take(name, costOf(source))
    remembered.delete(name)
    remembered.set(name, known)
    return known
  }
  // Before it is compiled, as that alone may take long.
  const cost = costOf(source)
  budget.take(name, cost)
  if (cost > 3 * MAX_PROGRAM) throw invalid('is too large an expression')
  let expression: RE2JS
  try {
    expression = RE2JS.compile(source, flags)
  } catch (cause) {
    if (cause instanceof RE2JSException) throw invalid(`does not compile: ${cause.message}`)
    throw cause
  }
  const size = expression.programSize()
  if (size > MAX_PROGRAM) throw invalid('is too large an expression')
  remembered.set(name, expression)
  rememberedSize += size + BASE_COST
  for (const [oldest, one] of remembered) {
    if (rememberedSize <= REMEMBERED) break
    remembered.delete(oldest)
    rememberedSize -= one.programSize() + BASE_COST
  }
  return expression
}

/** Instructions of an expression as far as its text tells, repetitions written out; what takes as long counts as much. */
function costOf(source: string): number {
  // Of the groups around; the last stands for what is read now.
  const open = [0]
  let last = 0
  for (let i = 0; i < source.length; i++) {
    const letter = source[i]!
    const repeat = letter === '{' ? /^\{(\d{1,4})(?:,(\d{0,4}))?\}/.exec(source.slice(i, i + 11)) : null
    if (letter === '(') {
      open.push(0)
      continue
    }
    let added = 1
    if (repeat !== null) {
      // Each may have a choice before it.
      added = (last + 1) * Math.max(Number(repeat[1]), Number(repeat[2] ?? 0))
      last += added
      i += repeat[0].length - 1
    } else {
      if (letter === ')' && open.length > 1) added = open.pop()! + 2
      else if (letter === '\\' && /[pP]/.test(source[++i] ?? '')) added = UNICODE_COST
      last = added
    }
    open[open.length - 1]! += added
  }
  return open.reduce((sum, each) => sum + each, BASE_COST)
}

function tooMuch(): Invalid {
  return invalid('is one expression too many: together they take too long to compile')
}

function stripped(pattern: string): string {
  let out = ''
  let depth = 0
  for (const letter of pattern) {
    if (letter === '{') depth++
    else if (letter === '}') depth--
    else if (depth === 0) out += letter
  }
  return out
}

function count(text: string, letter: string): number {
  let found = 0
  for (let at = text.indexOf(letter); at !== -1; at = text.indexOf(letter, at + 1)) found++
  return found
}

function order(a: string, b: string): number {
  return a < b ? -1 : a > b ? 1 : 0
}

function invalid(message: string): Invalid {
  return new Invalid([{ path: '', message }])
}
