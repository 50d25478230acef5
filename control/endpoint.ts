import type { Static, TSchema } from 'typebox'
import type { Fault } from '../config/validate.ts'
import type { ControlTools } from './tools.ts'

/** Who may enter: each door reads its own credential and answers errors in its surface's form (`doors.ts`). */
export type Door = 'gateway'

/** What a handler is given: everything checked and parsed. */
export interface Call<P, Q, B> {
  readonly params: P
  readonly query: Q
  readonly body: B
  /** Media type of the request's body without parameters, lower case; '' without a body. */
  readonly contentType: string
  /** The request's `Accept`, '' when absent. */
  readonly accept: string
}

/** An answer that is not plain JSON with status 200. */
export class Answer {
  readonly status: number
  readonly body: unknown
  readonly headers: Record<string, string>
  /** `body`: a string or Buffer goes out as it is (say its type in `headers`); anything else as JSON. */
  constructor(status: number, body: unknown, headers: Record<string, string> = {}) {
    this.status = status
    this.body = body
    this.headers = headers
  }
}

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

/** Faults as the interface tells them; of very many the first. */
export function toldFaults(faults: readonly Fault[]): { pointer: string; message: string }[] {
  return faults.slice(0, 1000).map(({ path, message }) => ({ pointer: path, message }))
}

/** How a body arrives: `json` is parsed; `document` is JSON or YAML, parsed by its content type; `none` is not read. */
export type BodyForm = 'json' | 'document' | 'none'

export interface Endpoint<P extends TSchema = TSchema, Q extends TSchema = TSchema, B extends TSchema = TSchema> {
  readonly method: 'GET' | 'POST' | 'PUT' | 'PATCH' | 'DELETE'
  /** `{name}` is one segment, percent-decoded. A trailing slash of the request is ignored. */
  readonly path: string
  readonly door: Door
  /** One line for people and the interface's own description. */
  readonly summary: string
  readonly params: P
  readonly query: Q
  readonly bodyForm: BodyForm
  readonly body: B
  /** Text of the 400 when the body cannot be read as its form (the facts give one an endpoint); faults of shape are listed after it. */
  readonly malformed: string
  readonly answer: TSchema
  handle(call: Call<Static<P>, Static<Q>, Static<B>>, tools: ControlTools): unknown | Promise<unknown>
}

/** Keeps the types of one row together while the table holds rows of all types. */
export function endpoint<P extends TSchema, Q extends TSchema, B extends TSchema>(row: Endpoint<P, Q, B>): Endpoint {
  return row as unknown as Endpoint
}
