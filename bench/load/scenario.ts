import type { Table } from './table.ts'

/** What the command line asked for. */
export interface Options {
  /** Rounds; each starts its processes anew. */
  readonly rounds: number
  /** Length of one measurement; a warm-up of a third of it, at least a second, comes before. */
  readonly seconds: number
  /** Smaller amounts of everything: to see that a scenario works, not to measure. */
  readonly quick: boolean
  /** Variables for the gateway's environment. */
  readonly env: Readonly<Record<string, string>>
}

/** A figure of the performance goals beside what came out. */
export interface Target {
  readonly what: string
  readonly wanted: string
  readonly got: string
  readonly met: boolean
}

export interface Report {
  /** Medians and ratios. */
  readonly tables: readonly Table[]
  /** Every round's figures; kept in the saved file, not shown. */
  readonly details: readonly Table[]
  readonly targets: readonly Target[]
  /** What must not happen: failed requests, wrong answers. Any makes the run end with status 1. */
  readonly failures: readonly string[]
}

export interface Scenario {
  readonly name: string
  /** One line for `--list`. */
  readonly summary: string
  run(options: Options): Promise<Report>
}

/** A target of a largest or smallest value, which may be unknown (null): a reference that is not installed. */
export function target(what: string, value: number | null, sign: '<=' | '>=', bound: number, unit = ''): Target {
  const met = value !== null && (sign === '<=' ? value <= bound : value >= bound)
  const got = value === null ? 'unknown' : `${value < 100 ? value.toFixed(2) : Math.round(value)}${unit}`
  return { what, wanted: `${sign === '<=' ? 'at most' : 'at least'} ${bound}${unit}`, got, met }
}

/** A line of progress, on standard error: standard output holds the result alone. */
export function progress(text: string): void {
  process.stderr.write(`${text}\n`)
}
