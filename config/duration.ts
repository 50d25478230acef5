/** Durations of the extension (semantics §3): `1h30m10s`, `1.5s`, `200ms`. Their form is checked by the shape. */

const UNIT_MS: Readonly<Record<string, number>> = { h: 3_600_000, m: 60_000, s: 1000, ms: 1 }

/** Milliseconds; the empty text is 0. Takes the plain and the fractional form alike; null when it is neither. */
export function durationMs(text: string): number | null {
  if (!/^(\d{1,9}h)?(\d{1,9}(\.\d{1,9})?m)?(\d{1,9}(\.\d{1,9})?s)?(\d{1,9}(\.\d{1,9})?ms)?$/.test(text)) return null
  let sum = 0
  for (const [, count, unit] of text.matchAll(/([\d.]+)(ms|h|m|s)/g)) sum += Number(count) * UNIT_MS[unit!]!
  return sum
}
