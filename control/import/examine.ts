import { numberFormats, textFormats } from '../../config/formats.ts'
import { isObject } from '../../config/report.ts'
import { pointer as escaped } from '../../config/validate.ts'
import { mayBeJson } from '../../gateway/documents/openapi/body.ts'
import { Definitions } from '../../gateway/documents/openapi/definitions.ts'
import { discriminatorOf } from '../../gateway/documents/openapi/discriminator.ts'
import { PASSED_OVER } from '../../gateway/documents/openapi/parameters.ts'
import { OWN_HEADERS } from '../../gateway/documents/openapi/readMock.ts'
import { STREAMING } from '../../streams/document/readStreaming.ts'
import { hasExtensions, type Kind, LATER_KEYWORDS, type Member, memberOf } from './grammar.ts'
import type { Members } from './members.ts'
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
const NOT_DECODED = 'texts are not decoded'
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
  'variable.enum': 'the default is taken',
  'parameter.allowReserved': 'reserved characters are taken as they come',
  'header.allowReserved': 'reserved characters are sent as they are',
  'schema.xml': 'XML is not checked',
  'schema.contentEncoding': NOT_DECODED,
  'schema.contentMediaType': NOT_DECODED,
  'schema.contentSchema': NOT_DECODED,
  'schema.$schema': 'schemas are read in the dialect of OpenAPI',
  'schema.$vocabulary': 'schemas are read in the dialect of OpenAPI',
  'schema.$id': 'references are JSON pointers into the document',
  'schema.$anchor': 'references are JSON pointers into the document',
  'schema.$dynamicAnchor': 'references are JSON pointers into the document'
}

const FOR_READERS = new Set(
  'summary description externalDocs tags deprecated termsOfService contact license version $comment'.split(' ')
)
/** For readers too where requests are described; answers may be made of them. */
const SAMPLES = new Set(['example', 'examples'])
/** Members that act through an option alone. */
const REQUESTS = new Set(['parameters', 'requestBody'])

/** What an object describes; schemas that are shared may describe both. */
type Side = 'requests' | 'responses' | 'both'

/** Tells every keyword of a description that has no effect in the API made of it. */
export function examine({ document, origins, root }: Source, acting: Acting, told: Report): void {
  const later = typeof document.openapi === 'string' && document.openapi.startsWith('3.1.')
  const definitions = new Definitions(document)
  visit(document, { kind: 'document', form: 'one' }, { file: root, pointer: '' }, 'both')
  const security = { file: root, pointer: '/security' }
  if (document.security !== undefined && !acting.authentication)
    told.at(security, 'security', 'ignored', 'authentication is off')
  else visitScopes(document.security, security)

  function visit(value: unknown, { kind, form }: Member, from: Place, side: Side): void {
    if (kind === null || typeof value !== 'object' || value === null) return
    const place = origins.get(value) ?? from
    if (Array.isArray(value)) {
      value.forEach((inner, i) => void visit(inner, { kind, form: 'one' }, below(place, i), side))
    } else if (isObject(value) && form === 'map') {
      for (const [name, inner] of Object.entries(value)) visit(inner, { kind, form: 'one' }, below(place, name), side)
    } else if (isObject(value)) {
      const isReference = typeof value.$ref === 'string' && kind !== 'pathItem'
      for (const [name, inner] of Object.entries(value))
        if (isReference && (kind !== 'schema' || !later)) visitSibling(kind, name, below(place, name))
        else visitMember(kind, value, name, inner, below(place, name), side)
    }
  }

  /** What stands beside a `$ref` that stands for all. */
  function visitSibling(kind: Kind, name: string, place: Place): void {
    if (name === '$ref') return
    if (later && kind !== 'schema' && (name === 'summary' || name === 'description'))
      told.remark(place, name, 'is for readers')
    else told.at(place, name, 'ignored', 'stands beside $ref, where nothing else counts')
  }

  function visitMember(kind: Kind, of: Members, name: string, value: unknown, place: Place, from: Side): void {
    const ignored = (message: string) => told.at(place, name, 'ignored', message)
    const known = memberOf(kind, name)
    // It makes a streaming API of it.
    if (kind === 'document' && name === STREAMING) return
    if (known === null) return ignored(unknownMember(kind, name))
    const why = inert[`${kind}.${name}`]
    if (why !== undefined) return ignored(why)
    const side = sideOf(kind, name) ?? from
    if (kind === 'schema' && !later && LATER_KEYWORDS.has(name)) ignored('is a keyword of OpenAPI 3.1')
    if (FOR_READERS.has(name) || (kind === 'schema' && name === 'title')) told.remark(place, name, 'is for readers')
    if (SAMPLES.has(name) && side === 'requests') told.remark(place, name, 'is for readers')
    if (kind === 'operation' || kind === 'pathItem') {
      if (REQUESTS.has(name) && !acting.requests) told.remark(place, name, 'is not checked: validateRequest is off')
      if (name === 'responses' && !acting.responses) told.remark(place, name, 'is not used: mockResponse is off')
    }
    if (kind === 'schema') visitKeyword(of, name, value, ignored, side)
    if (kind === 'parameter' && name === 'name' && isPassedOver(of))
      ignored('headers of this name are described by the body and by securitySchemes')
    if (name === 'content' && isObject(value) && side === 'requests') visitContent(value, place)
    if (kind === 'response' && name === 'headers' && isObject(value)) visitHeaders(value, place)
    if (kind === 'document' && name === 'servers') visitServers(value, place)
    if (kind === 'components' && name === 'securitySchemes') visitSchemes(value, place)
    if (hasExtensions(kind, name) && isObject(value)) visitEntries(kind, name, value, known, place, side)
    else visit(value, known, place, side)
  }

  function visitKeyword(
    schema: Members,
    name: string,
    value: unknown,
    ignored: (message: string) => void,
    side: Side
  ): void {
    if (name === 'format' && !isFormat(value)) ignored('is a format that is not checked')
    if (name === 'discriminator' && discriminatorOf(schema, definitions) === null)
      ignored('has effect only beside oneOf or anyOf, if all in there are references')
    if (side === 'responses') return
    if (name === 'default') ignored('is not filled into requests')
    if (name === 'readOnly') ignored('requests may hold it all the same, but need not')
  }

  function visitContent(content: Members, from: Place): void {
    const place = origins.get(content) ?? from
    for (const [type, media] of Object.entries(content)) {
      if (mayBeJson(type) || !isObject(media) || media.schema === undefined) continue
      const at = below(origins.get(media) ?? below(place, type), 'schema')
      told.at(at, 'schema', 'ignored', 'is not checked: only JSON is')
    }
  }

  function visitHeaders(headers: Members, from: Place): void {
    const place = origins.get(headers) ?? from
    for (const name of Object.keys(headers))
      if (OWN_HEADERS.has(name.toLowerCase()))
        told.at(below(place, name), name, 'ignored', 'is set by the content and by the gateway')
  }

  /** A map whose `x-` members are no entries. */
  function visitEntries(kind: Kind, name: string, value: Members, known: Member, from: Place, side: Side): void {
    const place = origins.get(value) ?? from
    for (const [entry, inner] of Object.entries(value)) {
      if (!entry.startsWith('x-')) visit(inner, { kind: known.kind, form: 'one' }, below(place, entry), side)
      else told.at(below(place, entry), entry, 'ignored', unknownMember(kind, name))
    }
  }

  function visitServers(value: unknown, from: Place): void {
    if (!Array.isArray(value)) return
    const place = origins.get(value) ?? from
    for (let i = acting.servers ? 1 : 0; i < value.length; i++)
      told.at(below(place, i), 'servers', 'ignored', i === 0 ? 'the upstream is given otherwise' : ONE_UPSTREAM)
    const first = acting.servers ? value[0] : null
    if (!isObject(first) || !isObject(first.variables)) return
    const at = below(origins.get(first) ?? below(place, 0), 'variables')
    for (const name of Object.keys(first.variables))
      if (!String(first.url).includes(`{${name}}`)) told.at(below(at, name), 'variables', 'ignored', 'is not in url')
  }

  function visitScopes(security: unknown, from: Place): void {
    for (const [i, requirement] of Array.isArray(security) ? security.entries() : [])
      for (const [name, scopes] of Object.entries(isObject(requirement) ? requirement : {}))
        if (Array.isArray(scopes) && scopes.length > 0)
          told.at(below(below(from, i), name), 'security', 'ignored', 'scopes are not checked')
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

/** Null: as around it. */
function sideOf(kind: Kind, name: string): Side | null {
  if (kind !== 'components' && kind !== 'operation' && kind !== 'pathItem') return null
  if (REQUESTS.has(name) || name === 'requestBodies') return 'requests'
  return name === 'responses' || name === 'headers' ? 'responses' : null
}

function isFormat(format: unknown): boolean {
  return typeof format === 'string' && (Object.hasOwn(textFormats, format) || Object.hasOwn(numberFormats, format))
}

function isPassedOver({ in: place, name }: Members): boolean {
  return place === 'header' && typeof name === 'string' && PASSED_OVER.has(name.toLowerCase())
}

function unknownMember(kind: Kind, name: string): string {
  return name.startsWith('x-') || kind === 'document' ? 'means nothing to the gateway' : 'is no member of OpenAPI here'
}

function below({ file, pointer }: Place, name: string | number): Place {
  return { file, pointer: `${pointer}/${escaped(String(name))}` }
}
