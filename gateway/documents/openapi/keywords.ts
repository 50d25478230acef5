/**
 * The keywords of schemas that say what fits (JSON Schema 2020-12, and OpenAPI 3.0's where they differ), by the kind of
 * value that they have. All others are remarks.
 */
export type KeywordKind =
  | 'number'
  | 'count'
  | 'flag'
  | 'limit'
  | 'type'
  | 'values'
  | 'value'
  | 'expression'
  | 'text'
  | 'texts'
  | 'textsMap'
  | 'schema'
  | 'schemas'
  | 'schemaMap'
  | 'unsupported'

export const keywords: ReadonlyMap<string, KeywordKind> = new Map(
  Object.entries({
    number: 'multipleOf maximum minimum',
    count: 'maxLength minLength maxItems minItems maxProperties minProperties maxContains minContains',
    flag: 'uniqueItems nullable readOnly writeOnly',
    // A number; in OpenAPI 3.0 a flag that belongs to `minimum` and `maximum`.
    limit: 'exclusiveMaximum exclusiveMinimum',
    type: 'type',
    values: 'enum',
    value: 'const',
    expression: 'pattern',
    text: 'format',
    texts: 'required',
    textsMap: 'dependentRequired',
    schema: 'not if then else items contains additionalProperties propertyNames unevaluatedItems unevaluatedProperties',
    schemas: 'allOf anyOf oneOf prefixItems',
    schemaMap: 'properties patternProperties dependentSchemas',
    unsupported: '$dynamicRef $recursiveRef'
  } satisfies Record<KeywordKind, string>).flatMap(([kind, names]) =>
    names.split(' ').map(name => [name, kind as KeywordKind] as const)
  )
)

export const types: ReadonlySet<unknown> = new Set([
  'string',
  'number',
  'integer',
  'boolean',
  'array',
  'object',
  'null'
])

/** Of those with schemas, the ones that look at the value itself and not at what it holds. */
export const inPlace: ReadonlySet<string> = new Set([
  'allOf',
  'anyOf',
  'oneOf',
  'not',
  'if',
  'then',
  'else',
  'dependentSchemas'
])
