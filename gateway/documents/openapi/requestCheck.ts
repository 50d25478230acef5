import { isObject, type Report } from '../../../config/report.ts'
import { pointer } from '../../../config/validate.ts'
import type { BodyCheck, CheckedHead, Misfit, RequestCheck } from '../../api.ts'
import type { Matching } from '../../paths.ts'
import { bodyChecker, type RequestBody, readRequestBody } from './body.ts'
import { SchemaChecker } from './checkSchema.ts'
import type { Definitions } from './definitions.ts'
import { type Parameter, ParameterCheck, readParameters, textsOf } from './parameters.ts'
import { type PathValues, pathValues } from './pathValues.ts'
import { Schemas } from './schemas.ts'
import { Reading } from './texts.ts'

/** Makes the checks of one document's operations; what they share is looked at once. */
export class RequestChecks {
  readonly #definitions: Definitions
  readonly #checker: SchemaChecker
  readonly #schemas: Schemas
  readonly #matching: Matching['matching']
  readonly #fault: Report

  /** @param fault takes faults as JSON pointers into the document */
  constructor(definitions: Definitions, matching: Matching['matching'], fault: Report) {
    this.#definitions = definitions
    this.#checker = new SchemaChecker(definitions, 'everything', fault)
    this.#schemas = new Schemas(definitions)
    this.#matching = matching
    this.#fault = fault
  }

  /** @param status of the refusal */
  of(method: string, path: string, status: number): RequestCheck {
    const definitions = this.#definitions
    const { parameters, requestBody } = readRequest({ method, path }, definitions, this.#checker, this.#fault)
    return new OperationCheck(
      status,
      parameters,
      requestBody,
      { path, matching: this.#matching },
      definitions,
      this.#schemas
    )
  }
}

/** What an operation of `paths` says about its requests. */
export function readRequest(
  { method, path }: { readonly method: string; readonly path: string },
  definitions: Definitions,
  checker: Pick<SchemaChecker, 'check'>,
  fault: Report
): { parameters: readonly Parameter[]; requestBody: RequestBody | null } {
  const paths = definitions.document.paths as Record<string, Record<string, unknown>>
  const item = paths[path]!
  const operation = item[method.toLowerCase()] as Record<string, unknown>
  const at = `/paths/${pointer(path)}`
  const below = `${at}/${method.toLowerCase()}`
  const lists = [
    { value: item.parameters, path: `${at}/parameters` },
    { value: operation.parameters, path: `${below}/parameters` }
  ]
  const parameters = readParameters(lists, path, definitions, checker, fault)
  const body = { value: operation.requestBody, path: `${below}/requestBody` }
  return { parameters, requestBody: readRequestBody(body, definitions, checker, fault) }
}

/** What the requests of one operation are held to. Put together when the first one comes: most of many are idle. */
class OperationCheck implements RequestCheck {
  readonly status: number
  readonly #parameters: readonly Parameter[]
  readonly #requestBody: RequestBody | null
  readonly #path: { readonly path: string; readonly matching: Matching['matching'] }
  readonly #definitions: Definitions
  readonly #schemas: Schemas
  #made: Made | null = null

  constructor(
    status: number,
    parameters: readonly Parameter[],
    requestBody: RequestBody | null,
    path: { readonly path: string; readonly matching: Matching['matching'] },
    definitions: Definitions,
    schemas: Schemas
  ) {
    this.status = status
    this.#parameters = parameters
    this.#requestBody = requestBody
    this.#path = path
    this.#definitions = definitions
    this.#schemas = schemas
  }

  get strictness(): number {
    return strictness(this.#parameters, this.#definitions)
  }

  takesPath(path: string): boolean {
    const { values, ofPath } = this.#make()
    const texts = textsOf({ path, query: '', pairs: [], bodyLength: 0 }, values(path))
    return ofPath.every(check => check.misfit(texts) === null)
  }

  head(head: CheckedHead): Misfit | null {
    const { values, ofPath, others } = this.#make()
    if (ofPath.length + others.length === 0) return null
    const texts = textsOf(head, ofPath.length === 0 ? null : values(head.path))
    // Those of the path first: they tell whether this is the right place at all.
    for (const checks of [ofPath, others])
      for (const check of checks) {
        const misfit = check.misfit(texts)
        if (misfit !== null) return misfit
      }
    return null
  }

  body(head: CheckedHead): Misfit | BodyCheck | null {
    const { body } = this.#make()
    return body === null ? null : body(head)
  }

  #make(): Made {
    if (this.#made === null) {
      const checks = this.#parameters.map(each => new ParameterCheck(each, this.#definitions, this.#schemas))
      this.#made = {
        ofPath: checks.filter(({ parameter }) => parameter.in === 'path'),
        others: checks.filter(({ parameter }) => parameter.in !== 'path'),
        values: pathValues(this.#path.path, this.#path.matching),
        body: this.#requestBody === null ? null : bodyChecker(this.#requestBody, this.#schemas)
      }
    }
    return this.#made
  }
}

interface Made {
  readonly ofPath: readonly ParameterCheck[]
  readonly others: readonly ParameterCheck[]
  readonly values: PathValues
  readonly body: ReturnType<typeof bodyChecker> | null
}

/** How much the parameters of a path keep out: the more, the sooner their operation is asked. */
function strictness(parameters: readonly Parameter[], definitions: Definitions): number {
  let sum = 0
  for (const { in: place, schema } of parameters) {
    const own = place === 'path' ? definitions.followed(schema) : null
    if (!isObject(own)) continue
    const { types } = new Reading(own, definitions)
    if (own.enum !== undefined || own.const !== undefined) sum += 8
    else if (types.size > 0 && !types.has('string')) sum += types.has('boolean') ? 7 : types.has('number') ? 5 : 6
    else if (own.pattern !== undefined) sum += 4
    else if (own.format !== undefined) sum += 3
    else if (own.maxLength !== undefined || own.minLength !== undefined) sum += 2
    else if (types.size > 0) sum += 1
  }
  return sum
}
