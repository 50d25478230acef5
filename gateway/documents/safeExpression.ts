import { RE2JS, RE2JSException } from 're2js'
import type { SafeExpression } from '../api.ts'

/**
 * Linear time is still time: an expression sees as much of a text as keeps letters times instructions below this, some 100 ms at
 * the very worst. A usual one has 20 instructions and sees all that LONGEST_TEXT lets it see.
 */
const MOST_WORK = 2_000_000
/** Characters. */
const LONGEST_TEXT = 65_536
/** Instructions. */
const LARGEST = 500

/** An expression of a user; its faults are told, and then it matches nothing. */
export function safeExpression(source: string, fault: (message: string) => void): SafeExpression {
  if (source === '') fault('is required')
  try {
    const expression = RE2JS.compile(source)
    const groups = expression.groupCount()
    const size = expression.programSize()
    if (size > LARGEST) fault(`has ${size} instructions where ${LARGEST} are allowed`)
    const longest = Math.min(LONGEST_TEXT, Math.floor(MOST_WORK / size))
    return {
      groups,
      first(text) {
        const matcher = expression.matcher(text.slice(0, longest))
        return matcher.find() ? (matcher.group(groups === 0 ? 0 : 1) ?? '') : null
      }
    }
  } catch (cause) {
    if (!(cause instanceof RE2JSException)) throw cause
    fault(`does not compile: ${cause.message}`)
    return { groups: 0, first: () => null }
  }
}
