import { SchemaChecker } from './checkSchema.ts'
import { Definitions } from './definitions.ts'
import { MATRIX, matrixPlaces } from './parameters.ts'
import { readRequest } from './requestCheck.ts'

/** Why requests to an operation cannot be checked. */
export interface Uncheckable {
  /** JSON pointer of the keyword. */
  readonly path: string
  readonly message: string
}

export interface Named {
  readonly method: string
  /** As in `paths`. */
  readonly path: string
}

/**
 * Operations whose requests are described beyond what the gateway checks, with the first reason that each schema leads
 * to. Faults of the document are not told here: whoever reads it finds them.
 */
export function uncheckable<T extends Named>(
  document: Readonly<Record<string, unknown>>,
  operations: readonly T[]
): Map<T, Uncheckable[]> {
  const reasons = new Map<unknown, Uncheckable>()
  /** Who leads to a schema: reasons spread that way, once over each schema, however many operations share it. */
  const holders = new Map<unknown, object[]>()
  const definitions = new Definitions(document)
  const checker = new SchemaChecker(definitions, 'everything', () => {}, {
    uncheckable(schema, path, message) {
      if (!reasons.has(schema)) reasons.set(schema, { path, message })
    },
    leads(from, to) {
      const known = holders.get(to)
      if (known === undefined) holders.set(to, [from])
      else known.push(from)
    }
  })
  const schemas = operations.map(operation => {
    const own: unknown[] = []
    const check = (schema: unknown, path: string) => {
      own.push(schema)
      checker.check(schema, path)
    }
    readRequest(operation, definitions, { check }, () => {})
    return [operation, own] as const
  })
  // The map grows while it is walked.
  for (const [schema, reason] of reasons)
    for (const holder of holders.get(schema) ?? []) if (!reasons.has(holder)) reasons.set(holder, reason)
  const found = new Map<T, Uncheckable[]>()
  for (const [operation, own] of schemas) {
    const styles = matrixPlaces(operation, definitions).map(path => ({ path, message: MATRIX }))
    const why = new Set([...styles, ...own.flatMap(schema => reasons.get(schema) ?? [])])
    if (why.size > 0) found.set(operation, [...why])
  }
  return found
}
