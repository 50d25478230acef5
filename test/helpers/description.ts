import { Ajv2020, type ValidateFunction } from 'ajv/dist/2020.js'
import { describe } from '../../control/describe.ts'
import { endpoints } from '../../control/endpoints/index.ts'

/** Holds answers against the interface's own description. */

interface Operation {
  readonly responses: Record<string, { readonly content: Record<string, { readonly schema?: object }> }>
}

const document = describe(endpoints, { version: '1', management: '/', gateway: '/' }) as {
  readonly paths: Record<string, Record<string, Operation>>
  readonly components: object
}
const ajv = new Ajv2020({ strict: false, allErrors: true, multipleOfPrecision: 6, validateFormats: false })
ajv.addSchema({ $id: 'svc', components: document.components })
const compiled = new Map<string, ValidateFunction>()

const rows = endpoints.map(({ method, path }) => ({
  method,
  path,
  places: path.split('{').length,
  matches: new RegExp(`^${path.replaceAll(/[.]/g, '\\$&').replaceAll(/\{\w+\}/g, '[^/]+')}/?$`)
}))

/** The path of the table that answers a request, or null. */
export function described(method: string, path: string): string | null {
  const named = method === 'HEAD' ? 'GET' : method
  const fitting = rows.filter(row => row.method === named && row.matches.test(path.split('?')[0]!))
  return fitting.sort((a, b) => a.places - b.places)[0]?.path ?? null
}

/** What an answer has that the description does not say; null: nothing. */
export function undescribed(method: string, path: string, status: number, type: string, body: unknown): string | null {
  const template = described(method, path)
  if (template === null) return null
  const name = `${method} ${template} ${status}`
  const response = document.paths[template]![method.toLowerCase()]!.responses[status]
  if (response === undefined) return `${name} is not described`
  const media = type.split(';', 1)[0]!.trim()
  const content = response.content[media]
  if (content === undefined) return `${name} is not described as ${media}`
  if (content.schema === undefined || typeof body === 'string') return null
  const check = compiled.get(name) ?? ajv.compile(rooted(content.schema) as object)
  compiled.set(name, check)
  return check(body) ? null : `${name}: ${ajv.errorsText(check.errors)} in ${JSON.stringify(body).slice(0, 2000)}`
}

/** References of the document, as they are called from a schema of their own. */
function rooted(schema: unknown): unknown {
  if (Array.isArray(schema)) return schema.map(rooted)
  if (typeof schema !== 'object' || schema === null) return schema
  return Object.fromEntries(
    Object.entries(schema).map(([name, value]) => [
      name,
      name === '$ref' && typeof value === 'string' ? `svc${value}` : rooted(value)
    ])
  )
}
