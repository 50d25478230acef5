import { isObject, type Report } from '../../../config/report.ts'
import { type OperationExtension, TOKEN } from '../../../config/shape/api.ts'
import { pointer } from '../../../config/validate.ts'
import type { Mock, MockAnswer } from '../../api.ts'
import type { Endpoint } from '../readEndpoints.ts'
import { accepted, readAccept } from './accept.ts'
import { SchemaChecker } from './checkSchema.ts'
import type { Definitions, Members, Place } from './definitions.ts'
import { isJson } from './parameters.ts'
import { sampleOf } from './sample.ts'
import { plain } from './schemas.ts'

/** Statuses whose answers have no body (RFC 9110 §15). */
const BODILESS = new Set([204, 205, 304])
const HEADER_NAME = new RegExp(TOKEN)
const UNFIT = /[^\t\x20-\x7e\x80-\xff]/
// The framing of a message is the gateway's own, and the content has told its type.
export const OWN_HEADERS: ReadonlySet<string> = new Set(
  'connection content-length content-type keep-alive proxy-connection te trailer transfer-encoding upgrade'.split(' ')
)

/** One way to answer: a media type of a response. */
interface Medium {
  readonly type: string
  readonly example: unknown
  /** By name, in order of the names; null: the document has none. */
  readonly examples: ReadonlyMap<string, unknown> | null
  readonly schema: unknown
}

interface Response {
  readonly headers: readonly string[]
  /** Empty: the response has no content. */
  readonly media: readonly Medium[]
}

/** Makes the mocks of one document's operations (semantics §3.7). */
export class Mocks {
  readonly #definitions: Definitions
  readonly #checker: SchemaChecker
  readonly #fault: Report

  /** @param fault takes faults as JSON pointers into the document */
  constructor(definitions: Definitions, fault: Report) {
    this.#definitions = definitions
    this.#checker = new SchemaChecker(definitions, 'references', fault)
    this.#fault = fault
  }

  /** @param fault takes faults below the block */
  of({ method, path }: Endpoint, given: NonNullable<OperationExtension['mockResponse']>, fault: Report): Mock {
    for (const [i, { name }] of given.headers.entries())
      if (OWN_HEADERS.has(name.toLowerCase()) && name.toLowerCase() !== 'content-type')
        fault(`/headers/${i}/name`, 'belongs to the connection and cannot be set')
    if (!given.fromOASExamples?.enabled) return fixed(given)
    const place = `/paths/${pointer(path)}/${method.toLowerCase()}/responses`
    const paths = this.#definitions.document.paths as Record<string, Record<string, Members>>
    return this.#fromExamples(
      this.#responses({ value: paths[path]![method.toLowerCase()]!.responses, path: place }),
      given.fromOASExamples
    )
  }

  #fromExamples(
    responses: ReadonlyMap<string, Response>,
    config: { code?: number; contentType?: string; exampleName?: string }
  ): Mock {
    const made = new Map<Medium, Map<string, Buffer>>()
    const usual = config.contentType || 'application/json'
    return asked => {
      const code = asked.code === null || asked.code === '' ? (config.code ?? 200) : wholeNumber(asked.code)
      if (code === null) return `given code ${cut(asked.code!)} is not a valid integer value`
      const response = responseOf(responses, code)
      if (response === null) return `there is no example response for the code: ${code}`
      if (response.media.length === 0 || BODILESS.has(code))
        return { status: code, pairs: [...response.headers], body: null }
      const type = accepted(
        readAccept(asked.accept ?? ''),
        response.media.map(each => each.type),
        usual
      )
      const medium = response.media.find(each => each.type === type)
      if (medium === undefined)
        return `there is no example response for the content type: ${cut(wanted(asked.accept) ?? usual)}`
      const name = asked.name || config.exampleName || ''
      const bodies = made.get(medium) ?? new Map<string, Buffer>()
      made.set(medium, bodies)
      const chosen = medium.example === undefined && medium.examples !== null ? name : ''
      let body = bodies.get(chosen)
      if (body === undefined) {
        const value = this.#value(medium, chosen)
        if (value === undefined)
          return chosen === ''
            ? `there is no example response for the content type: ${cut(medium.type)}`
            : `there is no example response for the example name: ${cut(chosen)}`
        body = bytesOf(value, medium.type)
        bodies.set(chosen, body)
      }
      const shown = medium.type.includes('*') ? (wanted(asked.accept) ?? usual) : medium.type
      return { status: code, pairs: ['Content-Type', shown, ...response.headers], body }
    }
  }

  /** The example of a medium, the named one of its examples, the first of them, or a sample of its schema. */
  #value({ type, example, examples, schema }: Medium, name: string): unknown {
    if (example !== undefined) return example
    if (examples !== null) return name === '' ? [...examples.values()][0] : examples.get(name)
    if (schema === undefined) return undefined
    return sampleOf(schema, this.#definitions, isXml(type) ? 'xml' : 'json')
  }

  #responses({ value, path }: Place): Map<string, Response> {
    const found = new Map<string, Response>()
    if (value === undefined) return found
    if (!isObject(value)) {
      this.#fault(path, 'must be an object')
      return found
    }
    for (const [code, given] of Object.entries(value)) {
      if (code.startsWith('x-')) continue
      const response = this.#object({ value: given, path: `${path}/${pointer(code)}` })
      if (response !== null)
        found.set(code.toUpperCase(), { headers: this.#headers(response), media: this.#media(response) })
    }
    return found
  }

  #object(given: Place): (Place & { readonly value: Members }) | null {
    const place = this.#definitions.follow(given, this.#fault)
    if (place === null) return null
    if (isObject(place.value)) return { value: place.value, path: place.path }
    this.#fault(place.path, 'must be an object')
    return null
  }

  /** The places of an object's members that are objects themselves, by name. */
  #members(value: unknown, path: string): [string, Place & { readonly value: Members }][] {
    if (value === undefined) return []
    const whole = this.#object({ value, path })
    if (whole === null) return []
    return Object.entries(whole.value).flatMap(([name, each]) => {
      const member = this.#object({ value: each, path: `${whole.path}/${pointer(name)}` })
      return member === null ? [] : [[name, member]]
    })
  }

  #media({ value, path }: Place & { readonly value: Members }): Medium[] {
    return this.#members(value.content, `${path}/content`).map(([type, { value: medium, path: where }]) => {
      if (medium.schema !== undefined) this.#checker.check(medium.schema, `${where}/schema`)
      const examples = this.#examples(medium.examples, `${where}/examples`)
      return { type, example: plain(medium.example), examples, schema: medium.schema }
    })
  }

  #examples(value: unknown, path: string): Map<string, unknown> | null {
    const found = this.#members(value, path)
      .filter(([, { value: example }]) => example.value !== undefined)
      .sort(([a], [b]) => (a < b ? -1 : 1))
      .map(([name, { value: example }]) => [name, plain(example.value)] as const)
    return found.length === 0 ? null : new Map(found)
  }

  #headers({ value, path }: Place & { readonly value: Members }): string[] {
    const pairs: string[] = []
    for (const [name, { value: header, path: where }] of this.#members(value.headers, `${path}/headers`)) {
      if (OWN_HEADERS.has(name.toLowerCase())) continue
      if (!HEADER_NAME.test(name)) this.#fault(where, 'has a name that no header can have')
      const text = headerText(this.#headerExample(header, where))
      if (text === null) continue
      if (UNFIT.test(text)) this.#fault(where, 'has an example that no header can have')
      else pairs.push(name, text)
    }
    return pairs
  }

  #headerExample(header: Members, path: string): unknown {
    if (header.example !== undefined) return header.example
    const examples = this.#examples(header.examples, `${path}/examples`)
    if (examples !== null) return [...examples.values()][0]
    const place =
      header.schema === undefined
        ? null
        : this.#definitions.follow({ value: header.schema, path: `${path}/schema` }, this.#fault)
    if (place === null || !isObject(place.value)) return undefined
    const { example, examples: several, const: only, default: usual, enum: values } = place.value
    return [example, several, only, usual, values]
      .map((each, i) => ((i === 1 || i === 4) && Array.isArray(each) ? each[0] : each))
      .find(each => each !== undefined)
  }
}

/** `body` and `headers` as they are; what is JSON by its look is called so, all else plain text. */
function fixed({ code, body, headers }: NonNullable<OperationExtension['mockResponse']>): Mock {
  const pairs = headers.flatMap(({ name, value }) => [name, value])
  const bytes = BODILESS.has(code) ? null : Buffer.from(body)
  if (bytes !== null && bytes.length > 0 && !headers.some(({ name }) => name.toLowerCase() === 'content-type'))
    pairs.push('Content-Type', looksLikeJson(body) ? 'application/json' : 'text/plain; charset=utf-8')
  const answer: MockAnswer = { status: code, pairs, body: bytes }
  return () => answer
}

/** The code's own response, that of its hundred (`2XX`), or the one for all others. */
function responseOf(responses: ReadonlyMap<string, Response>, code: number): Response | null {
  if (code < 200 || code > 599) return null
  return responses.get(String(code)) ?? responses.get(`${String(code)[0]}XX`) ?? responses.get('DEFAULT') ?? null
}

function wholeNumber(text: string): number | null {
  return /^[+-]?\d{1,9}$/.test(text.trim()) ? Number(text) : null
}

/** What `Accept` names, unless it takes anything. */
function wanted(accept: string | null): string | null {
  const text = accept?.trim() ?? ''
  return text === '' || readAccept(text)[0]?.type === '*/*' ? null : text
}

function bytesOf(value: unknown, type: string): Buffer {
  if (typeof value === 'string' && (!isJson(type) || looksLikeJson(value))) return Buffer.from(value)
  return Buffer.from(JSON.stringify(value))
}

/** An example of JSON may be written as its text. */
function looksLikeJson(text: string): boolean {
  if (!/^\s*[[{]/.test(text)) return false
  try {
    JSON.parse(text)
    return true
  } catch {
    return false
  }
}

function isXml(type: string): boolean {
  return /^(?:application|text)\/(?:[\w.+-]+\+)?xml\s*(?:;|$)/i.test(type)
}

/** OpenAPI's style `simple`; null: no text. */
function headerText(given: unknown): string | null {
  const value = plain(given)
  if (value === undefined || value === null) return null
  if (Array.isArray(value)) return value.map(each => headerText(each) ?? '').join(',')
  return typeof value === 'object' ? Object.entries(value).flat().join(',') : String(value)
}

function cut(text: string): string {
  return text.length > 100 ? `${text.slice(0, 100)}…` : text
}
