import { TooMuchEffort } from '../../config/effort.ts'
import type { Call } from '../call.ts'
import type { Arrived, Message } from '../message.ts'
import { Undelivered } from '../undelivered.ts'
import { type Compiled, compiled, environment, summary } from './cel.ts'
import { at, type Facts, factsOf } from './facts.ts'

/** Expressions (CEL) over one message. */

const variables = {
  value: 'dyn',
  key: 'dyn',
  headers: 'map<string, string>',
  topic: 'string',
  partition: 'int',
  offset: 'int',
  timestamp: 'int'
}

// Functions of the library get no context; evaluation is synchronous, so there is one at a time.
let facts: Facts | null = null
let caller: Call | null = null

const functions = {
  'json(string): dyn': (path: string) => at(facts!.value, path) ?? '',
  'json(): dyn': () => facts!.value,
  'meta(string): string': (name: string) => facts!.headers[name.toLowerCase()] ?? '',
  'content(): string': () => facts!.text
}
const ofMessages = environment(variables, functions)
const ofClients = environment(variables, {
  ...functions,
  'caller(string): string': (name: string) => {
    if (!/^svc_(?:meta|context)\.[\w.-]+$/.test(name))
      throw new RangeError('caller() takes svc_meta.… or svc_context.…')
    return caller!.variable(name)
  }
})

export interface Expression {
  /** Type of what comes out, as far as it can be told: `bool`, `string`, `dyn`, … */
  readonly type: string
  /** @throws Undelivered ('invalid'): it cannot be worked out for this message */
  run(message: Message & Partial<Arrived>): unknown
}

/**
 * Over `value` (parsed when it is JSON), `key`, `headers`, `topic`, `partition`, `offset`, `timestamp`, `json("a.b")`,
 * `meta("header")` and `content()`.
 * @throws RangeError: it cannot be used, with the reason
 */
export function compileExpression(text: string): Expression {
  const expression = compiled(ofMessages, text)
  return { type: expression.type, run: message => evaluate(expression, message, null) }
}

/** The same with `caller("svc_meta.…")`: what is known of the client. @throws RangeError */
export function compileForClients(text: string): {
  readonly type: string
  run(message: Message & Partial<Arrived>, call: Call): unknown
} {
  const expression = compiled(ofClients, text)
  return { type: expression.type, run: (message, call) => evaluate(expression, message, call) }
}

function evaluate(expression: Compiled, message: Message, call: Call | null): unknown {
  facts = factsOf(message)
  caller = call
  try {
    return expression.run(facts)
  } catch (cause) {
    if (cause instanceof Undelivered) throw cause
    const reason = cause instanceof TooMuchEffort ? 'takes too much work' : `cannot be worked out: ${summary(cause)}`
    throw new Undelivered('invalid', `an expression ${reason}`)
  } finally {
    facts = null
    caller = null
  }
}
