import fc from 'fast-check'
import t from 'tap'
import { Invalid } from '../../../config/validate.ts'
import { Refused } from '../../../control/endpoint.ts'
import { configure, merge } from '../../../control/import/configure.ts'
import { readSource } from '../../../control/import/source.ts'
import { bounds, description, input } from './given.ts'

/** Something of every kind, and references between them. */
const whole = description({
  servers: [{ url: 'http://{host}/', variables: { host: { default: 'a.example' } } }],
  security: [{ key: [] }],
  tags: [{ name: 'a' }],
  components: {
    securitySchemes: { key: { type: 'apiKey', in: 'header', name: 'k' } },
    schemas: {
      A: { properties: { a: { $ref: '#/components/schemas/A' } }, discriminator: { mapping: { a: 'A' } } }
    },
    examples: { E: { value: 1 } },
    parameters: { P: { name: 'p', in: 'query', schema: {} } },
    callbacks: { C: { x: {} } }
  },
  paths: {
    '/a/{b}': {
      parameters: [{ $ref: '#/components/parameters/P' }],
      get: {
        operationId: 'a',
        requestBody: { content: { 'application/json': { schema: {} } } },
        responses: {
          200: {
            headers: {},
            content: {
              'a/b': {
                schema: { $ref: '#/components/schemas/A' },
                examples: { e: { $ref: '#/components/examples/E' } }
              }
            },
            links: {}
          }
        },
        callbacks: {},
        servers: []
      }
    }
  }
})

type Path = readonly string[]

function pathsIn(value: unknown, path: Path = []): Path[] {
  if (typeof value !== 'object' || value === null) return [path]
  return [path, ...Object.entries(value).flatMap(([name, inner]) => pathsIn(inner, [...path, name]))]
}

function put(document: unknown, path: Path, value: unknown): void {
  let holder = document as Record<string, unknown>
  for (const name of path.slice(0, -1)) {
    holder = holder[name] as Record<string, unknown>
    if (typeof holder !== 'object' || holder === null) return
  }
  holder[path.at(-1)!] = structuredClone(value)
}

const strange = fc.oneof(
  fc.jsonValue({ maxDepth: 3 }),
  fc.constantFrom<unknown>(
    null,
    [],
    {},
    '',
    [null],
    [[]],
    { $ref: '#' },
    { $ref: '' },
    { $ref: '#/' },
    { $ref: 7 },
    { $ref: '#/paths/~1a~1{b}' },
    { $ref: '#/components/schemas' },
    { $ref: '#/paths/~1a~1{b}/get/requestBody' },
    '__proto__',
    'constructor',
    { constructor: null },
    { toString: 1 }
  )
)

t.test('whatever stands wherever in a description, it is imported or refused', async () => {
  const options = { listenPath: '/', authentication: '1', allowList: '1', validateRequest: '1', mockResponse: '1' }
  const first = await readSource(input(whole), bounds())
  const stored = configure(first, options, { template: null, dbId: '' }).document
  const places = pathsIn(whole).slice(1)
  const change = fc.array(fc.tuple(fc.constantFrom(...places), strange), { minLength: 1, maxLength: 3 })
  await fc.assert(
    fc.asyncProperty(change, async changes => {
      const document = structuredClone(whole)
      for (const [path, value] of changes) put(document, path, value)
      try {
        configure(await readSource(input(document), bounds()), options, { template: null, dbId: '' })
        merge(stored, await readSource(input(document), bounds()), options)
        const template = structuredClone(document)
        configure(await readSource(input(whole), bounds(), template), options, { template, dbId: '' })
      } catch (cause) {
        if (!(cause instanceof Refused) && !(cause instanceof Invalid)) throw cause
      }
    }),
    { numRuns: 500 }
  )
})
