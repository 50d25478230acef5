import type { Static, TSchema } from 'typebox'
import type { Fault } from '../config/validate.ts'
import type { Revision } from '../gateway/store/store.ts'
import type { Caller } from './caller.ts'
import type { Intent } from './permissions.ts'
import type { ControlTools } from './tools.ts'

/**
 * Who may enter: each door reads its own credential and answers errors in its surface's form (`doors.ts`). Nobody asks for
 * a credential at `open`.
 */
export type Door = 'gateway' | 'management' | 'admin' | 'portal' | 'open'

/** What a handler is given: everything checked and parsed. */
export interface Call<P, Q, B> {
  readonly params: P
  readonly query: Q
  readonly body: B
  /** The request's whole `Content-Type`, '' when absent. */
  readonly contentHeader: string
  /** Media type of the request's body without parameters, lower case; '' without a body. */
  readonly contentType: string
  /** The request's `Accept`, '' when absent. */
  readonly accept: string
  readonly caller: Caller
  /**
   * Holds a document's present revision against the request's `If-Match`, and answers the revision.
   * @throws Refused 412 when it is another one
   */
  matched(rev: Revision): Revision
  /** Tells the audit record what an update changes: the documents as their readers see them. */
  changed(before: unknown, after: unknown): void
}

/** An answer that is not plain JSON with status 200. */
export class Answer {
  readonly status: number
  readonly body: unknown
  readonly headers: Record<string, string>
  /**
   * `body`: a string or Buffer goes out as it is (say its type in `headers`), a `Streamed` piece by piece; anything else as JSON.
   */
  constructor(status: number, body: unknown, headers: Record<string, string> = {}) {
    this.status = status
    this.body = body
    this.headers = headers
  }
}

/** A body of unknown length, made while it goes out. What fails on the way breaks the answer off, so that nobody takes it for whole. */
export class Streamed {
  readonly #pieces: AsyncIterator<string>
  #first = ''
  #done = false
  constructor(pieces: AsyncIterable<string>) {
    this.#pieces = pieces[Symbol.asyncIterator]()
  }

  /** Makes its beginning, so that what cannot be read at all is refused before the answer's head has gone. */
  async begin(): Promise<void> {
    while (!this.#done && this.#first.length < BEGINNING) {
      const { done, value } = await this.#pieces.next()
      if (done) this.#done = true
      else this.#first += value
    }
  }

  async *rest(): AsyncGenerator<string> {
    try {
      if (this.#first !== '') yield this.#first
      this.#first = ''
      while (!this.#done) {
        const { done, value } = await this.#pieces.next()
        if (done) return
        yield value
      }
    } finally {
      await this.end()
    }
  }

  /** Whoever makes the pieces may put away what it makes them of. */
  async end(): Promise<void> {
    this.#done = true
    await this.#pieces.return?.()
  }
}

/** Characters. */
const BEGINNING = 16_384

/** A "no" of the management interface: thrown anywhere below a handler, written in one place. */
export class Refused extends Error {
  readonly status: number
  readonly headers: Record<string, string>
  /** Members beside status and message, e.g. the list of faults. */
  readonly more: Record<string, unknown>
  constructor(
    status: number,
    message: string,
    given: { headers?: Record<string, string>; more?: Record<string, unknown> } = {}
  ) {
    super(message)
    this.status = status
    this.headers = given.headers ?? {}
    this.more = given.more ?? {}
  }
}

const MOST_TOLD = 1000
/** Characters of one, and of all. A name may be as long as the body, and each fault below it repeats it. */
const LONGEST_TOLD = 1000
const MOST_CHARACTERS = 200_000

/** Faults as the interface tells them: of very many the first, of very long ones the beginning. */
export function toldFaults(faults: readonly Fault[]): { pointer: string; message: string }[] {
  const told: { pointer: string; message: string }[] = []
  let characters = 0
  for (const { path, message } of faults) {
    told.push({ pointer: beginning(path), message: beginning(message) })
    characters += path.length + message.length
    if (told.length === MOST_TOLD || characters > MOST_CHARACTERS) break
  }
  return told
}

function beginning(text: string): string {
  return text.length > LONGEST_TOLD ? `${text.slice(0, LONGEST_TOLD)}…` : text
}

/** The revision of a document as HTTP names it (RFC 9110 §8.8.3): strong, the number itself. */
export function etag(rev: Revision): { ETag: string } {
  return { ETag: `"${rev}"` }
}

/**
 * How a body arrives: `json` is parsed; `document` is JSON or YAML, parsed by its content type, integers exact; `bytes` is a
 * Buffer; `none` is not read.
 */
export type BodyForm = 'json' | 'document' | 'bytes' | 'none'

export interface Endpoint<P extends TSchema = TSchema, Q extends TSchema = TSchema, B extends TSchema = TSchema> {
  readonly method: 'GET' | 'POST' | 'PUT' | 'PATCH' | 'DELETE'
  /** `{name}` is one segment, percent-decoded. A trailing slash of the request is ignored. */
  readonly path: string
  readonly door: Door
  /** What the call means to permissions and audit; default: GET reads, DELETE deletes, everything else writes. */
  readonly intent?: Intent
  /** Management: any active user may call it, whatever the permissions; the handler looks at `caller` itself. */
  readonly anyUser?: true
  /** One line for people and the interface's own description. */
  readonly summary: string
  readonly params: P
  readonly query: Q
  readonly bodyForm: BodyForm
  /** Media types that the body may have, for the interface's description; default: those of the form. */
  readonly takes?: readonly string[]
  readonly body: B
  /** Text of the 400 when the body cannot be read as its form or has not its shape (the facts give one an endpoint); the faults stand beside it. */
  readonly malformed: string
  /** Text of the 400 when the body can be read but has not its shape; default: `malformed`. */
  readonly invalid?: string
  /** Text of the 400 when there is no body at all; default: on management and admin the facts' common one, else `malformed`. */
  readonly empty?: string
  /** Shape of the successful answer. */
  readonly answer: TSchema
  /** Members of the successful answer that are secrets though their names do not say so: audit records are without them. */
  readonly hides?: readonly string[]
  /** Status of the successful answer; default 200. */
  readonly status?: number
  /** Media type of the successful answer; default: application/json. */
  readonly gives?: readonly string[]
  handle(call: Call<Static<P>, Static<Q>, Static<B>>, tools: ControlTools): unknown | Promise<unknown>
}

/** Keeps the types of one row together while the table holds rows of all types. */
export function endpoint<P extends TSchema, Q extends TSchema, B extends TSchema>(row: Endpoint<P, Q, B>): Endpoint {
  return row as unknown as Endpoint
}
