import { pointer } from '../../config/validate.ts'
import type { Fault, ProcessorKind } from '../connector.ts'
import { Undelivered } from '../undelivered.ts'
import { compileExpression } from './expression.ts'

/** Keeps the messages for which an expression (CEL) is true: `filter: TEXT`, or `filter: { check: TEXT }`. */
export const filter: ProcessorKind = {
  name: 'filter',

  check(options, fault) {
    const place = typeof options === 'string' ? '' : '/check'
    const text = textOf(options, fault)
    if (text !== null) conditionFault(text, message => fault(place, message))
  },

  make(options) {
    const { run } = compileExpression(textOf(options, () => {})!)
    return message => {
      const kept = run(message)
      if (typeof kept !== 'boolean') throw new Undelivered('invalid', 'a filter is neither true nor false')
      return kept ? message : null
    }
  }
}

function textOf(options: unknown, fault: Fault): string | null {
  if (typeof options === 'string') return options
  if (typeof options !== 'object' || options === null || Array.isArray(options)) fault('', 'must be an expression')
  else {
    const { check, ...others } = options as Record<string, unknown>
    for (const name of Object.keys(others)) fault(`/${pointer(name)}`, 'is not known here')
    if (typeof check === 'string') return check
    fault('/check', check === undefined ? 'is required' : 'must be a text')
  }
  return null
}

/** Tells what is wrong with an expression that has to be true or false. */
export function conditionFault(
  text: string,
  tell: (message: string) => void,
  compile: (text: string) => { readonly type: string } = compileExpression
): void {
  try {
    const { type } = compile(text)
    if (type !== 'bool' && type !== 'dyn') tell(`must be true or false, and is of type ${type}`)
  } catch (cause) {
    if (!(cause instanceof RangeError)) throw cause
    tell(cause.message)
  }
}
