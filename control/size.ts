import { isRaw } from '../config/exactJson.ts'

/** Whether a value has more characters as JSON than so many, about: looks no further than it must. */
export function isLonger(value: unknown, most: number): boolean {
  return left(value, most) < 0
}

/** What is left of so many characters; below 0 somewhere: too few. */
function left(value: unknown, most: number): number {
  if (typeof value === 'string') return most - value.length - 2
  if (typeof value !== 'object' || value === null) return most - 4
  if (isRaw(value)) return most - value.rawJSON.length
  let rest = most - 2
  if (Array.isArray(value)) for (let i = 0; i < value.length && rest >= 0; i++) rest = left(value[i], rest) - 1
  else
    for (const name in value) {
      if (rest < 0) break
      rest = left((value as Record<string, unknown>)[name], rest - name.length - 4)
    }
  return rest
}
