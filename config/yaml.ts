import { Document, isAlias, isMap, isPair, isScalar, isSeq, LineCounter, type Node, parseDocument, visit } from 'yaml'
import { exactInteger, isLarge, isRaw, parseExact, type RawNumber, tooLarge } from './exactJson.ts'
import { type Fault, Invalid, pointer } from './validate.ts'

/**
 * Documents as text, JSON or YAML, to plain JSON values and back. Whoever wrote the text may be hostile: nesting,
 * aliases and size are bounded, ambiguous documents (a member twice) are refused.
 *
 * A JSON value keeps the order of members except that names like `200` come first in rising order, and numbers as
 * IEEE doubles (RFC 8259 §6): `1.0` is 1. An integer that no double carries is refused, or kept exactly as a raw JSON
 * value (`exactJson.ts`) where the caller asks for that. A number beyond all doubles is refused.
 */

const MAX_DEPTH = 100
const MAX_TEXT = 10 * 1024 * 1024
// YAML takes some 20 times as long to read as JSON, 3 to 15 µs for each mark that separates values.
const QUICK_YAML = 50_000
const QUICK_MARKS = 5_000
const MARK = /[\n\r,:[\]{}?!&*]|-\s/g

/** What becomes of integers that no double carries. */
export type Integers = 'doubles' | 'exact'
/** Values that aliases and merges may add to a document; of longer texts, every so many characters count as one. */
const MAX_ALIASED = 20_000
const ALIASED_TEXT = 100
const CORE_TAG = /^tag:yaml\.org,2002:(?:str|int|float|bool|null|map|seq)$/

/** @throws Invalid when it is not JSON, too large or nested deeper than 100, or says a member twice */
export function parseJson(text: string, integers: Integers = 'doubles'): unknown {
  checkLength(text)
  let value: unknown
  try {
    value = integers === 'exact' ? parseExact(text) : JSON.parse(text)
  } catch (cause) {
    throw fault('', `is not JSON: ${whereNot(text, (cause as Error).message)}`)
  }
  checkJson(text, integers)
  return value
}

/** Whether reading this as YAML holds nobody up for long. What others sent and is not quick belongs on another thread. */
export function isQuickYaml(text: string): boolean {
  return text.length <= QUICK_YAML && (text.match(MARK) ?? []).length <= QUICK_MARKS
}

/**
 * YAML 1.2 with the core schema, and merge keys (`<<`) as YAML 1.1 has them: one document, plain values, names that are
 * text. 5 MB may take several seconds.
 * @throws Invalid as parseJson does, and for tags, aliases that multiply the document or refer to nothing
 */
export function parseYaml(text: string, integers: Integers = 'doubles'): unknown {
  return read(text, integers, null).value
}

/** A document that knows where its values stand in the text. */
export interface Placed {
  readonly value: unknown
  /** Line, from 1, of the value at a JSON pointer: where its name stands, if it has one; null: there is no such value. */
  lineOf(path: string): number | null
}

/** The same as it travels between threads. */
export interface Lined {
  readonly json: string
  /** Two numbers for each value, in the order of the JSON text: its line, and how many values it is with those in it. */
  readonly lines: Int32Array
}

/** As `parseYaml`, integers exact, with the places of values. @throws Invalid */
export function parseLinedYaml(text: string): Lined {
  const { value, line, lines } = read(text, 'exact', new Map())
  const table: number[] = []
  const walk = (value: unknown, line: number) => {
    const start = table.push(line, 1) - 2
    const inner = lines!.get(value as object)
    if (inner !== undefined) for (const [name, each] of Object.entries(value as object)) walk(each, inner[name]!)
    table[start + 1] = (table.length - start) / 2
  }
  walk(value, line)
  return { json: JSON.stringify(value), lines: Int32Array.from(table) }
}

export function placed({ json, lines }: Lined): Placed {
  // Whoever has the value may change it.
  let original: unknown
  const known = new WeakMap<object, Map<string, number>>()
  const within = (value: object, start: number) => {
    const found = new Map<string, number>()
    let next = start + 1
    for (const name of Object.keys(value)) {
      found.set(name, next)
      next += lines[2 * next + 1]!
    }
    known.set(value, found)
    return found
  }
  return {
    value: parseExact(json),
    lineOf(path) {
      original ??= JSON.parse(json)
      let value = original
      let at = 0
      for (const segment of path.split('/').slice(1)) {
        if (typeof value !== 'object' || value === null) return null
        const name = segment.replaceAll('~1', '/').replaceAll('~0', '~')
        const next = (known.get(value) ?? within(value, at)).get(name)
        if (next === undefined) return null
        at = next
        value = (value as Record<string, unknown>)[name]
      }
      return lines[2 * at]!
    }
  }
}

/** Lines of what lies in a value, by name or index. */
type Lines = Map<object, Record<string, number>>

function read(text: string, integers: Integers, lines: Lines | null) {
  checkLength(text)
  let document: ReturnType<typeof parseDocument>
  const lineCounter = new LineCounter()
  try {
    // uniqueKeys compares each name with all others of its map; `convert` looks for doubles itself.
    document = parseDocument(text, {
      schema: 'core',
      version: '1.2',
      stringKeys: true,
      intAsBigInt: true,
      uniqueKeys: false,
      logLevel: 'error',
      lineCounter
    })
  } catch (cause) {
    throw fault('', `is not YAML: ${firstLine(cause as Error)}`)
  }
  const faults: Fault[] = [...document.errors, ...document.warnings]
    .slice(0, 10)
    .map(error => ({ path: '', message: `is not YAML: ${firstLine(error)}` }))
  if (faults.some(({ message }) => message.includes('call stack'))) throw tooDeep()
  if (faults.length > 0) throw new Invalid(faults)
  const reading: Reading = { anchors: new Map(), aliased: 0, inAlias: false, integers, lines, lineCounter }
  const line = lineAt(document.contents, 1, reading)
  return { value: convert(document.contents, { path: '', depth: 1, line }, reading), line, lines }
}

function nameOf(key: unknown): string {
  return String(isScalar(key) ? (key.value ?? key.source ?? '') : key)
}

const MERGE = '<<'

/** In quotes it is a name as any other. */
function isMerge(key: unknown): boolean {
  return isScalar(key) && key.type === 'PLAIN' && key.source === MERGE && key.tag === undefined
}

/** YAML that `parseYaml` reads back as the same value. */
export function toYaml(value: unknown): string {
  let mayMerge = false
  const written = (name: unknown, inner: unknown) => {
    if (name === MERGE) mayMerge = true
    return large(inner)
  }
  const document = new Document(value, written, { schema: 'core', version: '1.2', aliasDuplicateObjects: false })
  if (mayMerge)
    visit(document, (_, node) => {
      if (isPair(node) && isScalar(node.key) && node.key.value === MERGE) node.key.type = 'QUOTE_DOUBLE'
    })
  const text = document.toString({ lineWidth: 0 })
  // At the beginning it would be read as a byte order mark.
  return text.startsWith('\ufeff') ? `---\n${text}` : text
}

/** A raw JSON value as what YAML writes digit by digit. */
function large(value: unknown): unknown {
  return isRaw(value) ? BigInt((value as RawNumber).rawJSON) : value
}

interface Reading {
  readonly anchors: Map<string, Node>
  aliased: number
  inAlias: boolean
  readonly integers: Integers
  readonly lines: Lines | null
  readonly lineCounter: LineCounter
}

interface Where {
  readonly path: string
  readonly depth: number
  readonly line: number
}

/** What an alias stands for has the place of the alias. */
function lineAt(node: unknown, around: number, { lines, inAlias, lineCounter }: Reading): number {
  const offset = (node as Node | null)?.range?.[0]
  return lines === null || inAlias || offset === undefined ? around : lineCounter.linePos(offset).line
}

function convert(node: unknown, at: Where, reading: Reading): unknown {
  const { path, depth } = at
  if (node === null || node === undefined) return null
  if (reading.inAlias) spend(isScalar(node) ? node.value : null, path, reading)
  if (isAlias(node)) {
    const target = reading.anchors.get(node.source)
    if (target === undefined) throw fault(path, `refers to nothing: *${node.source}`)
    const outer = reading.inAlias
    reading.inAlias = true
    const value = convert(target, at, reading)
    reading.inAlias = outer
    return value
  }
  if (!isScalar(node) && !isMap(node) && !isSeq(node)) throw fault(path, 'is no plain value')
  if (node.tag !== undefined && !CORE_TAG.test(node.tag)) throw fault(path, `has the tag ${node.tag}`)
  if (node.anchor !== undefined && !reading.inAlias) reading.anchors.set(node.anchor, node)
  if (isScalar(node)) return scalar(node.value, path, reading.integers)
  if (depth > MAX_DEPTH) throw tooDeep()
  const lines: Record<string, number> = Object.create(null)
  const inside = (inner: unknown, name: string, line: number) => {
    lines[name] = line
    return convert(inner, { path: `${path}/${pointer(name)}`, depth: depth + 1, line }, reading)
  }
  const value = isSeq(node)
    ? node.items.map((item, i) => inside(item, String(i), lineAt(item, at.line, reading)))
    : members(node.items, inside, at, reading)
  if (reading.lines !== null) {
    for (const name of Object.keys(value)) lines[name] ??= at.line
    reading.lines.set(value, lines)
  }
  return value
}

type Pairs = readonly { readonly key: unknown; readonly value: unknown }[]
type Inside = (inner: unknown, name: string, line: number) => unknown

function members(pairs: Pairs, inside: Inside, at: Where, reading: Reading): Record<string, unknown> {
  const map: Record<string, unknown> = {}
  const merges = pairs.filter(({ key }) => isMerge(key))
  const own = merges.length === 0 ? null : new Set(pairs.map(({ key }) => (isMerge(key) ? null : nameOf(key))))
  for (const { key, value } of pairs) {
    if (own !== null && isMerge(key)) {
      merge(map, value, own, at, reading)
      continue
    }
    const name = nameOf(key)
    const path = `${at.path}/${pointer(name)}`
    if (reading.inAlias) spend(name, path, reading)
    if (name === '__proto__') throw fault(path, 'is a name that documents may not use')
    if (Object.hasOwn(map, name)) throw fault(path, 'stands there twice')
    map[name] = inside(value, name, lineAt(key, at.line, reading))
  }
  return map
}

/** https://yaml.org/type/merge.html: a map, or several of which the earlier win; what the map says itself wins over all. */
function merge(
  map: Record<string, unknown>,
  given: unknown,
  own: ReadonlySet<string | null>,
  { path, depth, line }: Where,
  reading: Reading
): void {
  const at = { path: `${path}/${MERGE}`, depth: depth + 1, line }
  const merged = convert(given, at, reading)
  for (const source of Array.isArray(merged) ? merged : [merged]) {
    if (typeof source !== 'object' || source === null || Array.isArray(source) || isRaw(source))
      throw fault(at.path, 'merges what is no map')
    for (const [name, value] of Object.entries(source))
      if (!own.has(name) && !Object.hasOwn(map, name)) map[name] = value
  }
}

/** @throws Invalid when aliases have added too much */
function spend(value: unknown, path: string, reading: Reading): void {
  reading.aliased += 1 + (typeof value === 'string' ? Math.floor(value.length / ALIASED_TEXT) : 0)
  if (reading.aliased > MAX_ALIASED) throw fault(path, 'has aliases that multiply the document')
}

function scalar(value: unknown, path: string, integers: Integers): unknown {
  if (typeof value === 'bigint') {
    if (!Number.isFinite(Number(value))) throw fault(path, 'is no finite number')
    const source = String(value)
    if (integers === 'doubles' && isLarge(source)) throw fault(path, tooLarge)
    return exactInteger(source)
  }
  if (typeof value === 'number' && !Number.isFinite(value)) throw fault(path, 'is no finite number')
  if (value === null || typeof value === 'string' || typeof value === 'number' || typeof value === 'boolean')
    return value
  throw fault(path, 'is no plain value')
}

/** In longer texts the place of a fault is not looked for: that would hold up requests. */
const MAX_SEARCHED = 65_536

/** The engine either tells the position or quotes what stands there, and that may be a secret. */
function whereNot(text: string, message: string): string {
  if (!/ is not valid JSON$/.test(message)) return message
  if (text.length > MAX_SEARCHED) return 'unexpected character'
  // The shortest beginning that no continuation could mend ends with what was unexpected.
  let [good, bad] = [0, text.length]
  while (bad - good > 1) {
    const middle = (good + bad) >> 1
    if (isBeginning(text.slice(0, middle))) good = middle
    else bad = middle
  }
  const lines = text.slice(0, bad).split('\n')
  return `unexpected character (line ${lines.length} column ${lines.at(-1)!.length})`
}

function isBeginning(text: string): boolean {
  try {
    JSON.parse(text)
    return true
  } catch (cause) {
    const { message } = cause as Error
    return /^Unexpected end|^Unterminated/.test(message) || message.includes(`at position ${text.length} `)
  }
}

/** Walks text that JSON.parse has accepted, for what it lets through. */
function checkJson(text: string, integers: Integers): void {
  // One entry an open container: the names of an object so far, null for an array.
  const open: (Set<string> | null)[] = []
  const names: string[] = []
  for (let i = 0; i < text.length; i++) {
    switch (text.charCodeAt(i)) {
      case 0x22: {
        const end = stringEnd(text, i)
        const colon = skipSpace(text, end + 1)
        if (text[colon] === ':') {
          const given = text.slice(i + 1, end)
          const name = given.includes('\\') ? (JSON.parse(`"${given}"`) as string) : given
          names[open.length] = name
          const known = open.at(-1)!
          if (known!.has(name)) throw fault(where(names, open.length), 'stands there twice')
          if (name === '__proto__') throw fault(where(names, open.length), 'is a name that documents may not use')
          known!.add(name)
          i = colon
        } else i = end
        break
      }
      case 0x7b:
      case 0x5b:
        open.push(text.charCodeAt(i) === 0x7b ? new Set() : null)
        names[open.length] = '0'
        if (open.length > MAX_DEPTH) throw tooDeep()
        break
      case 0x7d:
      case 0x5d:
        open.pop()
        break
      case 0x2c:
        if (open.at(-1) === null) names[open.length] = String(Number(names[open.length]) + 1)
        break
      // Only an exponent or 309 digits lead out of the doubles.
      case 0x2d:
      case 0x30:
      case 0x31:
      case 0x32:
      case 0x33:
      case 0x34:
      case 0x35:
      case 0x36:
      case 0x37:
      case 0x38:
      case 0x39: {
        let end = i + 1
        while (end < text.length && /[\d.eE+-]/.test(text[end]!)) end++
        const number = text.slice(i, end)
        if (!Number.isFinite(Number(number))) throw fault(where(names, open.length), 'is no finite number')
        if (integers === 'doubles' && isLarge(number)) throw fault(where(names, open.length), tooLarge)
        i = end - 1
      }
    }
  }
}

function stringEnd(text: string, start: number): number {
  let end = text.indexOf('"', start + 1)
  while (isEscaped(text, end)) end = text.indexOf('"', end + 1)
  return end
}

function isEscaped(text: string, at: number): boolean {
  let backslashes = 0
  while (text[at - 1 - backslashes] === '\\') backslashes++
  return backslashes % 2 === 1
}

function skipSpace(text: string, at: number): number {
  while (text[at] === ' ' || text[at] === '\n' || text[at] === '\r' || text[at] === '\t') at++
  return at
}

function where(names: readonly string[], depth: number): string {
  let path = ''
  for (let i = 1; i <= depth; i++) path += `/${pointer(names[i]!)}`
  return path
}

function checkLength(text: string): void {
  if (text.length > MAX_TEXT) throw fault('', `is longer than ${MAX_TEXT} characters`)
}

function firstLine(error: Error): string {
  return error.message.split('\n', 1)[0]!.replace(/:$/, '')
}

function tooDeep(): Invalid {
  return fault('', `is nested deeper than ${MAX_DEPTH} levels`)
}

function fault(path: string, message: string): Invalid {
  return new Invalid([{ path, message }])
}
