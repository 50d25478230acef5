import { isAlias, isMap, isScalar, isSeq, LineCounter, type Node, parseDocument, stringify } from 'yaml'
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
const MAX_JSON = 10 * 1024 * 1024
// YAML takes some 50 times as long to read as JSON, 5 to 15 µs for each mark that separates values.
const MAX_YAML = 512 * 1024
const MAX_MARKS = 40_000
const MARK = /[\n\r,:[\]{}?!&*]|-\s/g

/** What becomes of integers that no double carries. */
export type Integers = 'doubles' | 'exact'
/** Values that aliases may add to a document. */
const MAX_ALIASED = 20_000
const CORE_TAG = /^tag:yaml\.org,2002:(?:str|int|float|bool|null|map|seq)$/

/** @throws Invalid when it is not JSON, too large or nested deeper than 100, or says a member twice */
export function parseJson(text: string, integers: Integers = 'doubles'): unknown {
  if (text.length > MAX_JSON) throw fault('', `is longer than ${MAX_JSON} characters`)
  let value: unknown
  try {
    value = integers === 'exact' ? parseExact(text) : JSON.parse(text)
  } catch (cause) {
    throw fault('', `is not JSON: ${whereNot(text, (cause as Error).message)}`)
  }
  checkJson(text, integers)
  return value
}

/**
 * YAML 1.2 with the core schema: one document, plain values, names that are text.
 * @throws Invalid as parseJson does, and for tags, aliases that multiply the document or refer to nothing
 */
export function parseYaml(text: string, integers: Integers = 'doubles'): unknown {
  return parsePlacedYaml(text, integers).value
}

/** A document that knows where its values stand in the text. */
export interface Placed {
  readonly value: unknown
  /** Line, from 1, of the value at a JSON pointer: where its name stands, if it has one; null: there is no such value. */
  lineOf(path: string): number | null
}

/** As `parseYaml`, with the places of values. @throws Invalid */
export function parsePlacedYaml(text: string, integers: Integers = 'doubles'): Placed {
  if (text.length > MAX_YAML) throw fault('', `is longer than ${MAX_YAML} characters as YAML; send it as JSON`)
  if ((text.match(MARK) ?? []).length > MAX_MARKS) throw fault('', 'has too many values as YAML; send it as JSON')
  let document: ReturnType<typeof parseDocument>
  const lines = new LineCounter()
  try {
    // uniqueKeys compares each name with all others of its map; `convert` looks for doubles itself.
    document = parseDocument(text, {
      schema: 'core',
      version: '1.2',
      stringKeys: true,
      intAsBigInt: true,
      uniqueKeys: false,
      logLevel: 'error',
      lineCounter: lines
    })
  } catch (cause) {
    throw fault('', `is not YAML: ${firstLine(cause as Error)}`)
  }
  const faults: Fault[] = [...document.errors, ...document.warnings]
    .slice(0, 10)
    .map(error => ({ path: '', message: `is not YAML: ${firstLine(error)}` }))
  if (faults.some(({ message }) => message.includes('call stack'))) throw tooDeep()
  if (faults.length > 0) throw new Invalid(faults)
  const value = convert(document.contents, '', 1, { anchors: new Map(), aliased: 0, inAlias: false, integers })
  return {
    value,
    lineOf(path) {
      const offset = offsetOf(document.contents, path)
      return offset === null ? null : lines.linePos(offset).line
    }
  }
}

/** What an alias stands for has the place of the alias. */
function offsetOf(contents: unknown, path: string): number | null {
  let node = contents as Node | null
  let offset = node?.range?.[0] ?? 0
  for (const segment of path.split('/').slice(1)) {
    const name = segment.replaceAll('~1', '/').replaceAll('~0', '~')
    if (isAlias(node)) return offset
    if (isSeq(node)) {
      node = (node.items[Number(name)] as Node | undefined) ?? null
      if (node === null) return null
      offset = node.range?.[0] ?? offset
    } else if (isMap(node)) {
      const pair = node.items.find(({ key }) => nameOf(key) === name)
      if (pair === undefined) return null
      offset = (pair.key as Node | null)?.range?.[0] ?? offset
      node = pair.value as Node | null
    } else return null
  }
  return offset
}

function nameOf(key: unknown): string {
  return String(isScalar(key) ? (key.value ?? key.source ?? '') : key)
}

/** YAML that `parseYaml` reads back as the same value. */
export function toYaml(value: unknown): string {
  const text = stringify(value, large, { schema: 'core', version: '1.2', aliasDuplicateObjects: false, lineWidth: 0 })
  // At the beginning it would be read as a byte order mark.
  return text.startsWith('\ufeff') ? `---\n${text}` : text
}

/** A raw JSON value as what YAML writes digit by digit. */
function large(_name: unknown, value: unknown): unknown {
  return isRaw(value) ? BigInt((value as RawNumber).rawJSON) : value
}

interface Reading {
  readonly anchors: Map<string, Node>
  aliased: number
  inAlias: boolean
  readonly integers: Integers
}

function convert(node: unknown, path: string, depth: number, reading: Reading): unknown {
  if (node === null || node === undefined) return null
  if (reading.inAlias && ++reading.aliased > MAX_ALIASED) throw fault(path, 'has aliases that multiply the document')
  if (isAlias(node)) {
    const target = reading.anchors.get(node.source)
    if (target === undefined) throw fault(path, `refers to nothing: *${node.source}`)
    const outer = reading.inAlias
    reading.inAlias = true
    const value = convert(target, path, depth, reading)
    reading.inAlias = outer
    return value
  }
  if (!isScalar(node) && !isMap(node) && !isSeq(node)) throw fault(path, 'is no plain value')
  if (node.tag !== undefined && !CORE_TAG.test(node.tag)) throw fault(path, `has the tag ${node.tag}`)
  if (node.anchor !== undefined && !reading.inAlias) reading.anchors.set(node.anchor, node)
  if (isScalar(node)) return scalar(node.value, path, reading.integers)
  if (depth > MAX_DEPTH) throw tooDeep()
  if (isSeq(node)) return node.items.map((item, i) => convert(item, `${path}/${i}`, depth + 1, reading))
  const map: Record<string, unknown> = {}
  for (const { key, value } of node.items) {
    const name = nameOf(key)
    const at = `${path}/${pointer(name)}`
    if (name === '__proto__') throw fault(at, 'is a name that documents may not use')
    if (Object.hasOwn(map, name)) throw fault(at, 'stands there twice')
    map[name] = convert(value, at, depth + 1, reading)
  }
  return map
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
          const name = JSON.parse(text.slice(i, end + 1)) as string
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

function firstLine(error: Error): string {
  return error.message.split('\n', 1)[0]!.replace(/:$/, '')
}

function tooDeep(): Invalid {
  return fault('', `is nested deeper than ${MAX_DEPTH} levels`)
}

function fault(path: string, message: string): Invalid {
  return new Invalid([{ path, message }])
}
