import { isObject, type Report } from '../../config/report.ts'
import { pointer } from '../../config/validate.ts'

/** One operation of the OpenAPI part. */
export interface Endpoint {
  readonly id: string
  readonly method: string
  readonly path: string
}

const METHODS = ['get', 'put', 'post', 'delete', 'options', 'head', 'patch', 'trace']

/** The operations of `paths`; checks the OpenAPI part as far as the gateway relies on it. */
export function readEndpoints(document: Record<string, unknown>, fault: Report): Endpoint[] {
  const { openapi, info, paths } = document
  if (typeof openapi !== 'string' || !/^3\.[01]\.\d+$/.test(openapi)) fault('/openapi', 'must be 3.0.x or 3.1.x')
  if (!isObject(info)) fault('/info', 'must be an object')
  else
    for (const name of ['title', 'version'])
      if (typeof info[name] !== 'string') fault(`/info/${name}`, 'must be a text')
  // OpenAPI 3.1 allows documents of components or webhooks alone.
  if (paths === undefined && typeof openapi === 'string' && openapi.startsWith('3.1.')) return []
  if (!isObject(paths)) {
    fault('/paths', 'must be an object')
    return []
  }
  const endpoints: Endpoint[] = []
  const ids = new Map<string, Endpoint>()
  for (const [path, item] of Object.entries(paths)) {
    if (path.startsWith('x-')) continue
    if (!path.startsWith('/')) fault(placeOf(path), 'must begin with /')
    if (!isObject(item)) {
      fault(placeOf(path), 'must be an object')
      continue
    }
    for (const method of METHODS) {
      const operation = item[method]
      if (operation === undefined) continue
      const id = isObject(operation) ? (operation.operationId ?? '') : null
      if (id === null) fault(placeOf(path, method), 'must be an object')
      else if (typeof id !== 'string') fault(`${placeOf(path, method)}/operationId`, 'must be a text')
      else {
        const other = id === '' ? undefined : ids.get(id)
        if (other !== undefined)
          fault(
            `${placeOf(path, method)}/operationId`,
            `is taken by ${placeOf(other.path, other.method.toLowerCase())}`
          )
        const endpoint = { id, method: method.toUpperCase(), path }
        ids.set(id, endpoint)
        endpoints.push(endpoint)
      }
    }
  }
  return endpoints
}

function placeOf(path: string, method?: string): string {
  return `/paths/${pointer(path)}${method === undefined ? '' : `/${method}`}`
}
