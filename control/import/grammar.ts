/**
 * Which object stands where in an OpenAPI description, and what this gateway makes of it. One table serves both who
 * follows references (a `$ref` means something only where the specification puts an object) and who reports what has
 * no effect.
 */

export type Kind =
  | 'document'
  | 'info'
  | 'server'
  | 'variable'
  | 'components'
  | 'pathItem'
  | 'operation'
  | 'parameter'
  | 'requestBody'
  | 'mediaType'
  | 'encoding'
  | 'response'
  | 'callback'
  | 'example'
  | 'link'
  | 'header'
  | 'tag'
  | 'schema'
  | 'securityScheme'

/** What a member holds: a plain value, an object, a list of them, or a map of them by name. */
export interface Member {
  readonly kind: Kind | null
  readonly form: 'one' | 'list' | 'map'
}

export const METHODS = ['get', 'put', 'post', 'delete', 'options', 'head', 'patch', 'trace'] as const

/** Sections of `components`; a path item may be shared only from 3.1 on, so references to one are taken in. */
export const sections: Partial<Record<Kind, string>> = {
  schema: 'schemas',
  response: 'responses',
  parameter: 'parameters',
  example: 'examples',
  requestBody: 'requestBodies',
  header: 'headers',
  securityScheme: 'securitySchemes',
  link: 'links',
  callback: 'callbacks'
}

/** Words are plain members; `name: kind`, `name: kind[]` and `name: kind{}` hold objects; `*` is any name. */
function object(
  words: string,
  members: Record<string, `${Kind}${'' | '[]' | '{}'}`> = {}
): ReadonlyMap<string, Member> {
  const plain: [string, Member][] = words
    .split(' ')
    .filter(Boolean)
    .map(word => [word, { kind: null, form: 'one' }])
  const typed = Object.entries(members).map(([name, written]): [string, Member] => {
    const kind = written.replace(/\W+$/, '') as Kind
    return [name, { kind, form: written.endsWith('[]') ? 'list' : written.endsWith('{}') ? 'map' : 'one' }]
  })
  return new Map([...plain, ...typed])
}

function all<T extends string>(words: string, written: T): Record<string, T> {
  return Object.fromEntries(words.split(' ').map(word => [word, written]))
}

const FIELD = 'description required deprecated allowEmptyValue style explode allowReserved example'
const fieldMembers = { schema: 'schema', examples: 'example{}', content: 'mediaType{}' } as const

/** Keywords of JSON Schema that OpenAPI 3.0 does not have. */
export const LATER_KEYWORDS: ReadonlySet<string> = new Set(
  (
    '$schema $id $anchor $dynamicAnchor $dynamicRef $defs $vocabulary $comment const if then else dependentSchemas ' +
    'prefixItems contains patternProperties propertyNames unevaluatedItems unevaluatedProperties dependentRequired ' +
    'minContains maxContains contentEncoding contentMediaType contentSchema examples'
  ).split(' ')
)

export const grammar: Readonly<Record<Kind, ReadonlyMap<string, Member>>> = {
  document: object('openapi jsonSchemaDialect security externalDocs', {
    info: 'info',
    servers: 'server[]',
    paths: 'pathItem{}',
    webhooks: 'pathItem{}',
    components: 'components',
    tags: 'tag[]'
  }),
  info: object('title summary description termsOfService contact license version'),
  server: object('url description', { variables: 'variable{}' }),
  variable: object('enum default description'),
  components: object('', {
    ...Object.fromEntries(Object.entries(sections).map(([kind, section]) => [section, `${kind as Kind}{}`])),
    pathItems: 'pathItem{}'
  }),
  pathItem: object('$ref summary description', {
    ...all(METHODS.join(' '), 'operation'),
    servers: 'server[]',
    parameters: 'parameter[]'
  }),
  operation: object('tags summary description externalDocs operationId deprecated security', {
    parameters: 'parameter[]',
    requestBody: 'requestBody',
    responses: 'response{}',
    callbacks: 'callback{}',
    servers: 'server[]'
  }),
  parameter: object(`name in ${FIELD}`, fieldMembers),
  header: object(FIELD, fieldMembers),
  requestBody: object('description required', { content: 'mediaType{}' }),
  mediaType: object('example', { schema: 'schema', examples: 'example{}', encoding: 'encoding{}' }),
  encoding: object('contentType style explode allowReserved', { headers: 'header{}' }),
  response: object('description', { headers: 'header{}', content: 'mediaType{}', links: 'link{}' }),
  callback: object('', { '*': 'pathItem' }),
  example: object('summary description value externalValue'),
  link: object('operationRef operationId parameters requestBody description', { server: 'server' }),
  tag: object('name description externalDocs'),
  securityScheme: object('type description name in scheme bearerFormat flows openIdConnectUrl'),
  schema: object(
    `$ref title multipleOf maximum exclusiveMaximum minimum exclusiveMinimum maxLength minLength pattern maxItems
 minItems uniqueItems maxProperties minProperties required enum type description format default nullable discriminator
 readOnly writeOnly xml externalDocs example deprecated ${[...LATER_KEYWORDS].join(' ')}`.replaceAll('\n', ''),
    {
      ...all('allOf oneOf anyOf prefixItems', 'schema[]'),
      ...all('properties patternProperties dependentSchemas $defs definitions', 'schema{}'),
      ...all('not items additionalProperties if then else contains propertyNames contentSchema', 'schema'),
      ...all('unevaluatedItems unevaluatedProperties', 'schema')
    }
  )
}

/** What a member is; null: the specification has no such member. */
export function memberOf(kind: Kind, name: string): Member | null {
  if (name.startsWith('x-')) return null
  const members = grammar[kind]
  return members.get(name) ?? members.get('*') ?? null
}

/** Whether members of a map that begin with `x-` are extensions, as in objects. */
export function hasExtensions(kind: Kind, name: string): boolean {
  return (kind === 'document' && name === 'paths') || (kind === 'operation' && name === 'responses')
}
