import type { Call } from '../call.ts'
import type { Message } from '../message.ts'
import { Undelivered } from '../undelivered.ts'
import { compileExpression } from './expression.ts'
import { asText } from './json.ts'

/** Bytes of the longest result. */
const MOST_BYTES = 8192
/** Dots and dashes stand within a name, not at its end. */
const VARIABLE = /\$svc_(?:context|meta)\.\w+(?:[.-]\w+)*/y
const EXPRESSION = '${!'

/** A text whose parts are filled in for each message. Results are used as they are: what is in them is never read again. */
export interface Template {
  /** @throws Undelivered ('invalid'): an expression cannot be worked out, or the result is too long */
  (message: Message | null, call: Call | null): string
  /** It has expressions; without a message they give ''. */
  readonly needsMessage: boolean
  /** It has variables; without a call they are ''. */
  readonly needsCall: boolean
}

type Part = string | { readonly variable: string } | { readonly run: (message: Message) => unknown }

/**
 * Reads `$svc_context.NAME`, `$svc_meta.NAME` and `${! EXPRESSION }` out of a text.
 * @throws RangeError: what `templateFault` tells
 */
export function template(text: string): Template {
  const parts = partsOf(text)
  const needsMessage = parts.some(part => typeof part === 'object' && 'run' in part)
  const needsCall = parts.some(part => typeof part === 'object' && 'variable' in part)
  if (!needsMessage && !needsCall) return Object.assign(() => text, { needsMessage, needsCall })
  const fill = (message: Message | null, call: Call | null): string => {
    let made = ''
    for (const part of parts)
      if (typeof part === 'string') made += part
      else if ('variable' in part) made += call === null ? '' : call.variable(part.variable)
      else if (message !== null) made += asText(part.run(message))
    // A character is at most three bytes; most results are told by their length.
    if (made.length > MOST_BYTES / 3 && (made.length > MOST_BYTES || Buffer.byteLength(made) > MOST_BYTES))
      throw new Undelivered('invalid', `a text made of variables is longer than ${MOST_BYTES} bytes`)
    return made
  }
  return Object.assign(fill, { needsMessage, needsCall })
}

/** What a request knows (docs/streams.md); all of a key's `meta_data` is known. */
const KNOWN =
  /^svc_(?:meta\..+|context\.(?:path|remote_addr|(?:headers|cookies|request_data|path_params|jwt_claims)_.+))$/

/** Whether a variable, by its name without the dollar sign, can ever have a value. */
export function isKnown(variable: string): boolean {
  return KNOWN.test(variable)
}

/**
 * Why a text cannot be a template; null: it can. Variables that are always empty are faults too, and what looks like one.
 * @param more names that are known in this text
 */
export function templateFault(text: string, more: readonly string[] = []): string | null {
  try {
    for (const part of partsOf(text)) {
      const unknown =
        typeof part === 'string'
          ? /\$svc_\w*/.exec(part)?.[0]
          : 'variable' in part && !isKnown(part.variable) && !more.includes(part.variable)
            ? `$${part.variable}`
            : undefined
      if (unknown !== undefined) return `holds the variable ${unknown}, which does not exist`
    }
    return null
  } catch (cause) {
    if (!(cause instanceof RangeError)) throw cause
    return cause.message
  }
}

function partsOf(text: string): readonly Part[] {
  const parts: Part[] = []
  let literal = ''
  const add = (part: Part) => {
    if (literal !== '') parts.push(literal)
    literal = ''
    parts.push(part)
  }
  let i = 0
  while (i < text.length) {
    const next = text.indexOf('$', i)
    literal += next < 0 ? text.slice(i) : text.slice(i, next)
    if (next < 0) break
    i = next
    if (text.startsWith(EXPRESSION, i)) {
      const end = endOf(text, i + EXPRESSION.length)
      if (end < 0) throw new RangeError('has an expression that is not closed with }')
      const source = text.slice(i + EXPRESSION.length, end)
      const { run } = compiledPart(source)
      add({ run })
      i = end + 1
      continue
    }
    if (text.startsWith('$secret_', i)) throw new RangeError('holds a $secret_ variable, which is not supported')
    VARIABLE.lastIndex = i
    const found = VARIABLE.exec(text)
    if (found !== null) {
      add({ variable: found[0].slice(1) })
      i += found[0].length
    } else if (/^\$svc_(?:context|meta)\b/.test(text.slice(i, i + 20)))
      throw new RangeError('holds a variable without a name: $svc_context.NAME, $svc_meta.NAME')
    else {
      literal += '$'
      i++
    }
  }
  if (literal !== '') parts.push(literal)
  return parts
}

function compiledPart(source: string) {
  try {
    return compileExpression(source)
  } catch (cause) {
    if (!(cause instanceof RangeError)) throw cause
    throw new RangeError(`has an expression that cannot be used: ${cause.message}`, { cause })
  }
}

/** Where the bracket closes that stands before `from`: brackets in between and those in texts do not. -1: nowhere. */
function endOf(text: string, from: number): number {
  let depth = 0
  for (let i = from; i < text.length; i++) {
    const c = text[i]
    if (c === '"' || c === "'") {
      for (i++; i < text.length && text[i] !== c; i++) if (text[i] === '\\') i++
    } else if (c === '{') depth++
    else if (c === '}' && depth-- === 0) return i
  }
  return -1
}
