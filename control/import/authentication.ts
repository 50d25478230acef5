import { isObject } from '../../config/report.ts'
import { pointer as escaped } from '../../config/validate.ts'
import { Refused } from '../endpoint.ts'
import { type Members, member } from './members.ts'
import { followed } from './operations.ts'
import { type Report, refuse } from './report.ts'
import type { Source } from './source.ts'

/**
 * Switches on the schemes that the top-level `security` names, each alone, as far as the gateway reads them; the others
 * are told, and come back. `on`: null leaves things as they are.
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
  const readable = new Set<string>()
  for (const name of names) {
    const scheme = followed(document, isObject(described) && Object.hasOwn(described, name) ? described[name] : null)
    if (scheme === null)
      throw new Refused(400, `security names ${name.slice(0, 200)}, which components.securitySchemes does not have`)
    if (scheme.type === 'apiKey') {
      readable.add(name)
      continue
    }
    const kind = [scheme.type, scheme.scheme].filter(word => typeof word === 'string').join(' ')
    const place = at(`/components/securitySchemes/${escaped(name)}`)
    told.at(place, 'securitySchemes', 'ignored', `schemes of type ${kind.slice(0, 100)} are not read yet`)
    unsupported.add(name)
  }
  if (readable.size === 0)
    throw new Refused(400, 'authentication was asked for, but only schemes of type apiKey are read yet')
  const alone = requirements.map(requirement => Object.keys(requirement)).filter(group => group.length === 1)
  const wanted = new Set(alone.flat().filter(name => readable.has(name)))
  requirements.forEach((requirement, i) => {
    const group = Object.keys(requirement)
    const ignored = (message: string) => told.at(at(`/security/${i}`), 'security', 'ignored', message)
    if (group.length === 0) ignored('a request without credentials is refused')
    if (group.length < 2) return
    const why = together(group, readable)
    if (wanted.size === 0) throw refuse(at(`/security/${i}`), 'security', why)
    ignored(`${why}; the other requirements are`)
  })
  for (const name of readable) {
    if (wanted.has(name)) continue
    const place = at(`/components/securitySchemes/${escaped(name)}`)
    told.at(place, 'securitySchemes', 'ignored', 'is asked for together with others alone')
    unsupported.add(name)
  }
  const authentication = member(server, 'authentication')
  authentication.enabled = true
  const schemes = member(authentication, 'securitySchemes')
  for (const name of wanted) member(schemes, name).enabled = true
  return unsupported
}

/** Why schemes that one requirement names cannot be asked for: any one of them would do then. */
function together(group: readonly string[], readable: ReadonlySet<string>): string {
  const unread = group.filter(name => !readable.has(name))
  const why = unread.length === 0 ? 'one credential is read from each request' : `${unread.join(', ')} is not read yet`
  return `asks for ${group.join(' and ')} together, which cannot be switched on: ${why}`.slice(0, 1000)
}
