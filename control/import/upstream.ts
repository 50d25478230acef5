import { isObject } from '../../config/report.ts'
import { Refused } from '../endpoint.ts'
import { refuse } from './report.ts'
import type { Source } from './source.ts'

/** The first of `servers`, its variables at their defaults. @throws Refused 400 where that is no absolute address */
export function serverUrl({ document, origins, root }: Source): string {
  const servers = document.servers
  const first = Array.isArray(servers) ? servers[0] : undefined
  if (!isObject(first)) throw new Refused(400, 'servers is empty, so upstreamURL must be given')
  const place = origins.get(first) ?? { file: root, pointer: '/servers/0' }
  const at = (below: string) => ({ file: place.file, pointer: `${place.pointer}${below}` })
  if (typeof first.url !== 'string') throw refuse(at('/url'), 'url', 'must be a text')
  const variables = isObject(first.variables) ? first.variables : {}
  const url = first.url.replace(/\{([^{}]*)\}/g, (_, name: string) => {
    const variable = Object.hasOwn(variables, name) ? variables[name] : undefined
    const value = isObject(variable) ? variable.default : undefined
    if (typeof value !== 'string' && typeof value !== 'number')
      throw refuse(at('/url'), 'url', `the variable ${name.slice(0, 100)} has no default`)
    return String(value)
  })
  if (!/^https?:\/\/[^/]/i.test(url) || URL.parse(url) === null)
    throw refuse(at('/url'), 'url', 'must be an absolute http or https address, or upstreamURL be given')
  return url
}
