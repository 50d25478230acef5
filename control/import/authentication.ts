import { pointer as escaped } from '../../config/validate.ts'
import { isObject } from '../../gateway/documents/report.ts'
import { Refused } from '../endpoint.ts'
import { type Members, member } from './members.ts'
import { followed } from './operations.ts'
import type { Report } from './report.ts'
import type { Source } from './source.ts'

/**
 * Switches on the schemes that the top-level `security` names, as far as the gateway reads them; the others are told,
 * and come back. `on`: null leaves things as they are.
 * @throws Refused 400 where nobody would be asked for a credential after all
 */
export function switchAuthentication(
  { document, root }: Source,
  extension: Members,
  on: boolean | null,
  told: Report
): ReadonlySet<string> {
  const server = member(extension, 'server')
  const unsupported = new Set<string>()
  if (on === false && isObject(server.authentication)) server.authentication.enabled = false
  if (on !== true) return unsupported
  const at = (pointer: string) => ({ file: root, pointer })
  const requirements = Array.isArray(document.security) ? document.security.filter(isObject) : []
  const names = new Set(requirements.flatMap(requirement => Object.keys(requirement)))
  if (names.size === 0) throw new Refused(400, 'authentication needs security at the top of the description')
  const described = isObject(document.components) ? document.components.securitySchemes : null
  const readable: string[] = []
  for (const name of names) {
    const scheme = followed(document, isObject(described) && Object.hasOwn(described, name) ? described[name] : null)
    if (scheme === null)
      throw new Refused(400, `security names ${name.slice(0, 200)}, which components.securitySchemes does not have`)
    if (scheme.type === 'apiKey') {
      readable.push(name)
      continue
    }
    const kind = [scheme.type, scheme.scheme].filter(word => typeof word === 'string').join(' ')
    const place = at(`/components/securitySchemes/${escaped(name)}`)
    told.at(place, 'securitySchemes', 'ignored', `schemes of type ${kind.slice(0, 100)} are not read yet`)
    unsupported.add(name)
  }
  if (readable.length === 0)
    throw new Refused(400, 'authentication was asked for, but only schemes of type apiKey are read yet')
  requirements.forEach((requirement, i) => {
    const count = Object.keys(requirement).length
    const message = count === 0 ? 'a request without credentials is refused' : 'one of the credentials is enough'
    if (count !== 1) told.at(at(`/security/${i}`), 'security', 'ignored', message)
  })
  const authentication = member(server, 'authentication')
  authentication.enabled = true
  const schemes = member(authentication, 'securitySchemes')
  for (const name of readable) member(schemes, name).enabled = true
  return unsupported
}
