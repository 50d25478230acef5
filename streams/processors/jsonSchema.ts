import { foreignFault, pointer } from '../../config/validate.ts'
import type { ProcessorKind } from '../connector.ts'
import { Undelivered } from '../undelivered.ts'
import { factsOf } from './facts.ts'
import { readSchema } from './readSchema.ts'

/** Work that one message may take: followed references and tried patterns, some 100 ns each. */
const MOST_STEPS = 1_000_000
const LONGEST_TEXT = 300

/**
 * Refuses messages that do not fit a JSON Schema (2020-12): `json_schema: { schema }`, as an object or as JSON text. A
 * tombstone has nothing to check and goes on.
 */
export const jsonSchema: ProcessorKind = {
  name: 'json_schema',

  check(options, fault) {
    if (typeof options !== 'object' || options === null || Array.isArray(options)) return fault('', 'must be an object')
    const { schema, ...others } = options as Record<string, unknown>
    for (const name of Object.keys(others)) fault(`/${pointer(name)}`, 'is not known here')
    const given = objectOf(schema)
    if (schema === undefined) fault('/schema', 'is required')
    else if (given === null) fault('/schema', 'must be a JSON Schema: an object, or a text that is one')
    else readSchema(given, (place, message) => fault(`/schema${place}`, message))
  },

  make(options) {
    const schema = readSchema(objectOf((options as { schema: unknown }).schema)!, () => {})
    return message => {
      if (message.value === null) return message
      const facts = factsOf(message)
      if (!facts.isJson) throw new Undelivered('invalid', 'the message is no JSON')
      // Large integers are bigints there, which schemas do not know.
      const value = /\d{16}/.test(facts.text) ? (JSON.parse(facts.text) as unknown) : facts.value
      const fault = foreignFault(schema, value, MOST_STEPS)
      if (fault === null) return message
      const text = `${fault.path === '' ? 'the message' : fault.path} ${fault.message}`
      throw new Undelivered('invalid', text.length > LONGEST_TEXT ? `${text.slice(0, LONGEST_TEXT)}…` : text)
    }
  }
}

function objectOf(schema: unknown): object | null {
  let given = schema
  if (typeof schema === 'string')
    try {
      given = JSON.parse(schema)
    } catch {
      return null
    }
  return typeof given === 'object' && given !== null && !Array.isArray(given) ? given : null
}
