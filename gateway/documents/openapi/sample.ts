import { sample } from 'openapi-sampler'
import { isObject } from '../../../config/report.ts'
import type { Definitions, Members } from './definitions.ts'
import { plain } from './schemas.ts'

/** Values that a sample may have, roughly; a small schema can describe an astronomical one. */
const MOST_VALUES = 5_000
const DEEPEST = 12
const MOST_ITEMS = 10
const LONGEST_TEXT = 1_000

/** A value as a schema describes it, or its XML text; undefined where none can be made. */
export function sampleOf(schema: unknown, definitions: Definitions, format: 'json' | 'xml'): unknown {
  const bounded = new Bounded(definitions).schema(schema, 0, 1, [])
  try {
    if (format === 'json') return sample(bounded, { skipWriteOnly: true, quiet: true })
    // As the only member of an object it becomes the root element.
    const root = { type: 'object' as const, properties: { [rootName(schema)]: bounded } }
    return `<?xml version="1.0" encoding="UTF-8"?>\n${sample(root, { skipWriteOnly: true, quiet: true, format })}`
  } catch {
    // A schema that contradicts itself.
    return undefined
  }
}

function rootName(schema: unknown): string {
  const ref =
    isObject(schema) && typeof schema.$ref === 'string' ? schema.$ref.slice(schema.$ref.lastIndexOf('/') + 1) : ''
  return /^[A-Za-z_][\w.-]*$/.test(ref) ? ref : 'root'
}

/** Writes a schema out without references and circles, and no larger than a sample may be. */
class Bounded {
  readonly #definitions: Definitions
  #left = MOST_VALUES

  constructor(definitions: Definitions) {
    this.#definitions = definitions
  }

  /** @param times how often it will be sampled, through lists around it */
  schema(given: unknown, depth: number, times: number, around: readonly unknown[]): Members {
    if (!isObject(given)) return {}
    this.#left -= times
    const target = given.$ref === undefined ? given : this.#definitions.followed(given)
    if (!isObject(target)) return {}
    if (around.includes(target) || depth > DEEPEST || this.#left < 0) return empty(target)
    const inside = [...around, target]
    const whole: Members =
      target === given || this.#definitions.is30 ? target : { ...target, ...given, $ref: undefined }
    const out: Members = {}
    const items = whole.minItems
    const count = typeof items === 'number' && items * times <= MOST_VALUES ? Math.min(items, MOST_ITEMS) : 1
    for (const [name, value] of Object.entries(whole)) {
      switch (name) {
        case 'type':
          out.type = Array.isArray(value) ? (value.find(type => type !== 'null') ?? 'null') : value
          break
        case 'enum':
        case 'examples':
          if (Array.isArray(value) && value.length > 0) out[name] = [plain(value[0])]
          break
        case 'const':
        case 'default':
        case 'example':
          out[name] = plain(value)
          break
        case 'minimum':
        case 'maximum':
        case 'exclusiveMinimum':
        case 'exclusiveMaximum':
        case 'multipleOf':
        case 'maxItems':
          out[name] = plain(value)
          break
        case 'minItems':
          out[name] = count
          break
        case 'minLength':
        case 'maxLength':
          // Texts with a format are as long as they are.
          if (typeof value === 'number' && (whole.format === undefined || whole.format === 'password'))
            out[name] = Math.min(value, LONGEST_TEXT)
          break
        case 'format':
        case 'xml':
        case 'readOnly':
        case 'writeOnly':
        case 'required':
          out[name] = value
          break
        case 'properties':
          if (isObject(value))
            out.properties = Object.fromEntries(
              Object.entries(value).map(([member, each]) => [member, this.schema(each, depth + 1, times, inside)])
            )
          break
        case 'items':
          out.items = this.schema(value, depth + 1, times * count, inside)
          break
        case 'prefixItems':
        case 'allOf':
          if (Array.isArray(value)) out[name] = value.map(each => this.schema(each, depth + 1, times, inside))
          break
        case 'oneOf':
        case 'anyOf': {
          const first = Array.isArray(value)
            ? (value.find(each => !(isObject(each) && each.type === 'null')) ?? {})
            : {}
          out[name] = [this.schema(first, depth + 1, times, inside)]
          break
        }
        case 'additionalProperties':
          if (isObject(value)) out.additionalProperties = this.schema(value, depth + 1, times, inside)
      }
    }
    return out
  }
}

/** What stands where a circle closes. */
function empty({ type, properties }: Members): Members {
  const known = Array.isArray(type) ? type[0] : type
  return { type: known ?? (properties === undefined ? 'null' : 'object') }
}
