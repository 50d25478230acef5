import { isRaw } from './exactJson.ts'
import { Invalid } from './validate.ts'

/** Takes one fault: where it is, as a JSON pointer, and what was expected. */
export type Report = (path: string, message: string) => void

/** Reports below a path. */
export function at(path: string, fault: Report): Report {
  return (below, message) => fault(path + below, message)
}

export function isObject(value: unknown): value is Record<string, unknown> {
  return typeof value === 'object' && value !== null && !Array.isArray(value) && !isRaw(value)
}

/** What `read` gives; null when it throws, which is reported. */
export function tried<T>(read: () => T, fault: (message: string) => void): T | null {
  try {
    return read()
  } catch (cause) {
    if (cause instanceof Invalid) for (const { message } of cause.faults) fault(message)
    else if (cause instanceof RangeError) fault(cause.message)
    else throw cause
    return null
  }
}
