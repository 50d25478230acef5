import { at, type Report, tried } from '../../config/report.ts'
import type { Extension, OperationExtension } from '../../config/shape/api.ts'
import { pointer } from '../../config/validate.ts'
import type { Api, Operation } from '../api.ts'
import { CompileBudget, inPrecedence, literalPath, type Matching, type PathRule, pathRule } from '../paths.ts'
import { Definitions } from './openapi/definitions.ts'
import { MATRIX, matrixPlaces } from './openapi/parameters.ts'
import { Mocks } from './openapi/readMock.ts'
import { RequestChecks } from './openapi/requestCheck.ts'
import type { Endpoint } from './readEndpoints.ts'
import { readEdits, readRate, readTimeout } from './readMembers.ts'

/** An operation with what makes it quick to find. */
export interface Ruled {
  readonly operation: Operation
  /** Its path in normal form when it is plain text. */
  readonly literal: string | null
  readonly ignoreCase: boolean
}

/** What the paths of one document may cost to compile: some 400 with expressions. */
const MOST_COMPILED = 20_000

/** What the extension says about the operations of the document, in order of precedence. */
export function readOperations(
  endpoints: readonly Endpoint[],
  { middleware }: Extension,
  document: Readonly<Record<string, unknown>>,
  matching: Matching['matching'],
  fault: Report,
  inDocument: Report
): readonly Ruled[] {
  const given = new Map(Object.entries(middleware.operations))
  const known = new Set(endpoints.map(({ id }) => id))
  for (const id of given.keys()) {
    if (id === '' || !known.has(id)) fault(`/middleware/operations/${pointer(id)}`, 'is no operationId of paths')
  }
  const acts = [...given.values()].some(operation => Object.values(operation).some(block => block.enabled))
  const everywhere = middleware.global.ignoreCase?.enabled ?? false
  const budget = new CompileBudget(MOST_COMPILED)
  const definitions = new Definitions(document)
  const checks = new RequestChecks(definitions, matching, inDocument)
  const mocks = new Mocks(definitions, inDocument)
  // Without a rule that acts nobody asks which operation a path is; only what is said of some is checked.
  const read = acts ? endpoints : endpoints.filter(({ id }) => given.has(id))
  const ruled = read.map(endpoint => {
    const extension = given.get(endpoint.id) ?? {}
    const { allow, block, ignoreAuthentication } = extension
    const ignoreCase = everywhere || [allow, block, ignoreAuthentication].some(rule => rule?.enabled && rule.ignoreCase)
    const rules = () => ({
      rule: pathRule(endpoint.path, { matching, ignoreCase }, budget),
      literal: literalPath(endpoint.path)
    })
    const wasSpent = budget.isSpent
    // Too much is told once.
    const report = (message: string) => void (wasSpent || inDocument(`/paths/${pointer(endpoint.path)}`, message))
    const path = acts ? tried(rules, report) : null
    if (Object.values(extension).some(block => block.enabled))
      for (const place of matrixPlaces(endpoint, definitions)) inDocument(place, MATRIX)
    const operation = readOperation(endpoint, path?.rule ?? never, extension, { checks, mocks }, fault)
    return { operation, literal: path?.literal ?? null, ignoreCase }
  })
  return acts ? withRivals(inPrecedence(ruled, ({ operation }) => operation.path)) : []
}

/** `/users/{id}` and `/users/{name}` take the same paths: where one of them is checked, their parameters decide. */
function withRivals(ruled: readonly Ruled[]): readonly Ruled[] {
  if (!ruled.some(({ operation }) => operation.requestCheck !== null)) return ruled
  const groups = Map.groupBy(
    ruled.filter(({ literal }) => literal === null),
    ({ operation: { method, path } }) => `${method} ${path.replace(/\{[^{}:]*/g, '{')}`
  )
  const strictness = ({ requestCheck }: Operation) => requestCheck?.strictness ?? -1
  for (const group of groups.values()) {
    if (group.length < 2 || !group.some(({ operation }) => operation.requestCheck !== null)) continue
    const rivals = group.map(({ operation }) => operation).sort((a, b) => strictness(b) - strictness(a))
    for (const operation of rivals) (operation.rivals as Operation[]).push(...rivals)
  }
  return ruled
}

const never: PathRule = () => false

function readOperation(
  { id, method, path }: Endpoint,
  matches: PathRule,
  extension: OperationExtension,
  { checks, mocks }: { checks: RequestChecks; mocks: Mocks },
  fault: Report
): Operation {
  const report = at(`/middleware/operations/${pointer(id)}`, fault)
  const {
    allow,
    block,
    ignoreAuthentication,
    requestSizeLimit,
    rateLimit,
    enforceTimeout,
    validateRequest,
    mockResponse
  } = extension
  const edits = (of: 'request' | 'response', member: 'transformRequestHeaders' | 'transformResponseHeaders') =>
    readEdits(extension[member], of, at(`/${member}`, report))
  return {
    id,
    method,
    path,
    matches,
    rivals: [],
    allow: allow?.enabled ?? false,
    block: block?.enabled ?? false,
    ignoreAuthentication: ignoreAuthentication?.enabled ?? false,
    sizeLimit: requestSizeLimit?.enabled ? requestSizeLimit.value : null,
    rate: readRate(rateLimit, message => report('/rateLimit', message)),
    timeoutMs: readTimeout(enforceTimeout, message => report('/enforceTimeout', message)),
    requestHeaders: edits('request', 'transformRequestHeaders'),
    responseHeaders: edits('response', 'transformResponseHeaders'),
    requestCheck: validateRequest?.enabled ? checks.of(method, path, validateRequest.errorResponseCode) : null,
    mock: mockResponse?.enabled ? mocks.of({ id, method, path }, mockResponse, at('/mockResponse', report)) : null
  }
}

/** The operations of one method: plain paths are looked up, the others tried in order. */
interface Shelf {
  readonly literal: Map<string, Operation>
  readonly anyCase: Map<string, Operation>
  readonly others: Operation[]
}

export function finder(ruled: readonly Ruled[], matching: Matching['matching']): Api['operation'] {
  if (ruled.length === 0) return () => null
  const shelves = new Map<string, Shelf>()
  for (const { operation, literal, ignoreCase } of ruled) {
    const shelf: Shelf = shelves.get(operation.method) ?? { literal: new Map(), anyCase: new Map(), others: [] }
    shelves.set(operation.method, shelf)
    if (literal === null || matching !== 'exact') shelf.others.push(operation)
    else {
      const paths = ignoreCase ? shelf.anyCase : shelf.literal
      const path = ignoreCase ? literal.toLowerCase() : literal
      if (!paths.has(path)) paths.set(path, operation)
    }
  }
  return (method, path) => {
    const shelf = shelves.get(method)
    if (shelf === undefined) return null
    const { literal, anyCase, others } = shelf
    const found = literal.get(path) ?? (anyCase.size > 0 ? anyCase.get(path.toLowerCase()) : undefined)
    if (found !== undefined) return found
    for (let i = 0; i < others.length; i++) if (others[i]!.matches(path)) return among(others[i]!, path)
    return null
  }
}

/** The strictest whose parameters take the path; where none does, the strictest, which will say so. */
function among(found: Operation, path: string): Operation {
  const { rivals } = found
  if (rivals.length === 0) return found
  return rivals.find(({ requestCheck }) => requestCheck === null || requestCheck.takesPath(path)) ?? rivals[0]!
}
