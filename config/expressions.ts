import { RE2JS, RE2JSException } from 're2js'
import { spend, spendMs, TooMuchEffort } from './effort.ts'

/** The expressions of foreign schemas (`pattern`), in RE2's syntax: no look-around, no back references, linear time. */

const MAX_LENGTH = 2048
/** Instructions of a compiled expression. */
const MAX_PROGRAM = 2000
/** Up to this size it never takes more than some 40 ns a character; beyond, in the worst case 60 ns an instruction. */
const SMALL_PROGRAM = 20
/** Characters × instructions of larger ones: some 300 ms at worst. */
const MOST_WORK = 5_000_000
/** Verdicts that are remembered, so that a thousand documents with the same expression compile it once. */
const REMEMBERED = 5000
const verdicts = new Map<string, string | null>()

export interface Expression {
  test(text: string): boolean
  toString(): string
}

/** Why an expression cannot be used; null: it can. */
export function expressionFault(source: string): string | null {
  const known = verdicts.get(source)
  if (known !== undefined) return known
  const verdict = judge(source)
  if (verdicts.size >= REMEMBERED) verdicts.clear()
  verdicts.set(source, verdict)
  return verdict
}

function judge(source: string): string | null {
  if (source.length > MAX_LENGTH) return `is longer than ${MAX_LENGTH} characters`
  try {
    return compiled(source).programSize() > MAX_PROGRAM ? 'is too large an expression' : null
  } catch (cause) {
    if (cause instanceof RE2JSException) return `does not compile: ${cause.message}`
    throw cause
  }
}

/** For ajv's option `code.regExp`. Tells one expression from another by its text. */
export function expression(source: string): Expression {
  const re = compiled(source)
  const size = re.programSize()
  const longest = size <= SMALL_PROGRAM ? Number.POSITIVE_INFINITY : MOST_WORK / size
  return {
    test(text) {
      spend(1)
      if (text.length > longest) throw new TooMuchEffort()
      const began = performance.now()
      const fits = re.test(text)
      spendMs(performance.now() - began)
      return fits
    },
    toString: () => source
  }
}
expression.code = 'expression'

function compiled(source: string): RE2JS {
  return RE2JS.compile(RE2JS.translateRegExp(source))
}
