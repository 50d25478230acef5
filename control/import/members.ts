import { isObject } from '../../config/report.ts'

export type Members = Record<string, unknown>

/** The object that is a member; an empty one takes the place of anything else. */
export function member(of: Members, name: string): Members {
  const value = of[name]
  if (isObject(value)) return value
  const made: Members = {}
  of[name] = made
  return made
}
