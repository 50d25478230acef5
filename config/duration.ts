/** Durations of the extension (semantics §3): `1h30m10s`, `1.5s`, `200ms`. Their form is checked by the shape. */

const UNIT_MS: Readonly<Record<string, number>> = { h: 3_600_000, m: 60_000, s: 1000, ms: 1 }

/** Milliseconds; the empty text is 0. Takes the plain and the fractional form alike; null when it is neither. */
export function durationMs(text: string): number | null {
  if (!/^(\d{1,9}h)?(\d{1,9}(\.\d{1,9})?m)?(\d{1,9}(\.\d{1,9})?s)?(\d{1,9}(\.\d{1,9})?ms)?$/.test(text)) return null
  let sum = 0
  for (const [, count, unit] of text.matchAll(/([\d.]+)(ms|h|m|s)/g)) sum += Number(count) * UNIT_MS[unit!]!
  return sum
}

/** Units of readable lifetimes, seconds; a month has 30 days. `M` and `m` differ. */
const UNIT_S: Readonly<Record<string, number>> = { M: 2_592_000, w: 604_800, d: 86_400, h: 3600, m: 60, s: 1 }
const PART = /(\d{1,16})([Mwdhms])/g
const LIFETIME = /^\d{1,16}[Mwdhms](?:(?: *, *| *)\d{1,16}[Mwdhms]){0,5}$/

/**
 * Seconds of a readable lifetime (semantics §8.5): `5h,34m,30s`, `5h34m30s`, `5h 34m 30s`, each unit at most once; null
 * when the text is none, or is longer than a safe integer of seconds.
 */
export function lifetimeSeconds(text: string): number | null {
  if (!LIFETIME.test(text)) return null
  const units = new Set<string>()
  let sum = 0
  for (const [, count, unit] of text.matchAll(PART)) {
    if (units.has(unit!)) return null
    units.add(unit!)
    sum += Number(count) * UNIT_S[unit!]!
  }
  return Number.isSafeInteger(sum) ? sum : null
}

/** Units of durations in streams, milliseconds. */
const STREAM_UNIT_MS: Readonly<Record<string, number>> = { ...UNIT_MS, us: 0.001, µs: 0.001, ns: 0.000_001 }

/** Milliseconds of a duration in a stream's options (`1m30s`, `100ms`); its form is checked by the shape. */
export function streamMs(text: string): number {
  let sum = 0
  for (const [, count, unit] of text.matchAll(/([\d.]+)(ns|us|µs|ms|s|m|h)/g))
    sum += Number(count) * STREAM_UNIT_MS[unit!]!
  return sum
}

const BYTES = { '': 1, k: 1e3, M: 1e6, G: 1e9, Ki: 1024, Mi: 1_048_576, Gi: 1_073_741_824 } as const

/** Bytes of `8MiB`, `64 kB` or a plain number; their form is checked by the shape. */
export function byteCount(given: number | string): number {
  if (typeof given === 'number') return given
  const [, count, unit] = /^(\d+) ?([kKMG]i?)?B?$/.exec(given)!
  const name = (unit ?? '').replace(/^K$/, 'k').replace(/^ki$/, 'Ki')
  return Number(count) * BYTES[name as keyof typeof BYTES]
}
