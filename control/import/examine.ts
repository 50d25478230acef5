import { pointer as escaped } from '../../config/validate.ts'
import { STREAMING } from '../../gateway/documents/readStreaming.ts'
import { isObject } from '../../gateway/documents/report.ts'
import { hasExtensions, type Kind, LATER_KEYWORDS, type Member, memberOf } from './grammar.ts'
import type { Place, Report } from './report.ts'
import type { Source } from './source.ts'

/** What acts in the API that an import makes. */
export interface Acting {
  readonly authentication: boolean
  /** Names of security schemes that are read, and of those whose refusal was told already. */
  readonly schemes: ReadonlySet<string>
  readonly requests: boolean
  readonly responses: boolean
  /** The upstream was taken from `servers`. */
  readonly servers: boolean
}

const NO_CALLBACKS = 'the gateway makes no calls back'
const NO_LINKS = 'links are not followed'
const ONE_UPSTREAM = 'the whole API has one upstream'

/** Members that never act, with all that is in them. */
const inert: Readonly<Record<string, string>> = {
  'document.webhooks': 'webhooks are not routed',
  'document.jsonSchemaDialect': 'schemas are read in the dialect of OpenAPI',
  'components.callbacks': NO_CALLBACKS,
  'components.links': NO_LINKS,
  'components.pathItems': 'has effect only where paths refer to it',
  'pathItem.servers': ONE_UPSTREAM,
  'operation.servers': ONE_UPSTREAM,
  'operation.callbacks': NO_CALLBACKS,
  'operation.security': 'the security of the whole description counts for every operation',
  'response.links': NO_LINKS,
  'mediaType.encoding': 'how the parts of a form are encoded is not checked',
  'example.externalValue': 'is not fetched',
  'schema.xml': 'XML is not checked'
}

/** Told once a document, wherever they stand. */
const FOR_READERS = new Set(
  'summary description externalDocs tags deprecated termsOfService contact license version'.split(' ')
)
/** Members that act through an option alone. */
const REQUESTS = new Set(['parameters', 'requestBody'])

/** Tells every keyword of a description that has no effect in the API made of it. */
export function examine({ document, origins, root }: Source, acting: Acting, told: Report): void {
  const later = typeof document.openapi === 'string' && document.openapi.startsWith('3.1.')
  visit(document, { kind: 'document', form: 'one' }, { file: root, pointer: '' })
  if (document.security !== undefined && !acting.authentication)
    told.at({ file: root, pointer: '/security' }, 'security', 'ignored', 'authentication is off')

  function visit(value: unknown, { kind, form }: Member, from: Place): void {
    if (kind === null || typeof value !== 'object' || value === null) return
    const place = origins.get(value) ?? from
    if (Array.isArray(value)) value.forEach((inner, i) => void visit(inner, { kind, form: 'one' }, below(place, i)))
    else if (isObject(value) && form === 'map')
      for (const [name, inner] of Object.entries(value)) visit(inner, { kind, form: 'one' }, below(place, name))
    else if (isObject(value) && typeof value.$ref !== 'string')
      for (const [name, inner] of Object.entries(value)) visitMember(kind, name, inner, below(place, name))
  }

  function visitMember(kind: Kind, name: string, value: unknown, place: Place): void {
    const ignored = (message: string) => told.at(place, name, 'ignored', message)
    const known = memberOf(kind, name)
    // It makes a streaming API of it.
    if (kind === 'document' && name === STREAMING) return
    if (known === null) return ignored(unknownMember(kind, name))
    const why = inert[`${kind}.${name}`]
    if (why !== undefined) return ignored(why)
    if (kind === 'schema' && !later && LATER_KEYWORDS.has(name)) ignored('is a keyword of OpenAPI 3.1')
    if (FOR_READERS.has(name)) told.everywhere(place, name, 'is for readers')
    if (kind === 'operation' || kind === 'pathItem') {
      if (REQUESTS.has(name) && !acting.requests) told.everywhere(place, name, 'is not checked: validateRequest is off')
      if (name === 'responses' && !acting.responses) told.everywhere(place, name, 'is not used: mockResponse is off')
    }
    if (kind === 'document' && name === 'servers') visitServers(value, place)
    if (kind === 'components' && name === 'securitySchemes') visitSchemes(value, place)
    if (hasExtensions(kind, name) && isObject(value)) visitEntries(kind, name, value, known, place)
    else visit(value, known, place)
  }

  /** A map whose `x-` members are no entries. */
  function visitEntries(kind: Kind, name: string, value: Record<string, unknown>, known: Member, from: Place): void {
    const place = origins.get(value) ?? from
    for (const [entry, inner] of Object.entries(value)) {
      if (!entry.startsWith('x-')) visit(inner, { kind: known.kind, form: 'one' }, below(place, entry))
      else told.at(below(place, entry), entry, 'ignored', unknownMember(kind, name))
    }
  }

  function visitServers(value: unknown, from: Place): void {
    if (!Array.isArray(value)) return
    const place = origins.get(value) ?? from
    for (let i = acting.servers ? 1 : 0; i < value.length; i++)
      told.at(below(place, i), 'servers', 'ignored', i === 0 ? 'the upstream is given otherwise' : ONE_UPSTREAM)
  }

  function visitSchemes(value: unknown, from: Place): void {
    if (!isObject(value)) return
    const place = origins.get(value) ?? from
    for (const name of Object.keys(value))
      if (!acting.schemes.has(name))
        told.at(
          below(place, name),
          'securitySchemes',
          'ignored',
          acting.authentication ? 'top-level security does not name it' : 'authentication is off'
        )
  }
}

function unknownMember(kind: Kind, name: string): string {
  return name.startsWith('x-') || kind === 'document' ? 'means nothing to the gateway' : 'is no member of OpenAPI here'
}

function below({ file, pointer }: Place, name: string | number): Place {
  return { file, pointer: `${pointer}/${escaped(String(name))}` }
}
