/** Cells as text; the first column is left-aligned, the others hold figures. */
export interface Table {
  readonly caption: string
  readonly head: readonly string[]
  readonly rows: readonly (readonly string[])[]
}

/** Markdown, padded so that it reads well on a terminal too. */
export function markdown({ caption, head, rows }: Table): string {
  const widths = head.map((_, i) => Math.max(3, ...[head, ...rows].map(cells => (cells[i] ?? '').length)))
  const line = (cells: readonly string[]) =>
    `| ${widths.map((width, i) => (i === 0 ? (cells[i] ?? '').padEnd(width) : (cells[i] ?? '').padStart(width))).join(' | ')} |`
  const rule = `| ${widths.map((width, i) => (i === 0 ? '-'.repeat(width) : `${'-'.repeat(width - 1)}:`)).join(' | ')} |`
  return [`**${caption}**`, '', line(head), rule, ...rows.map(line)].join('\n')
}

export function median(values: readonly number[]): number {
  const sorted = values.toSorted((a, b) => a - b)
  const middle = sorted.length >> 1
  return sorted.length % 2 === 1 ? sorted[middle]! : (sorted[middle - 1]! + sorted[middle]!) / 2
}

/** @param sorted ascending; @param share 0.99 for p99 */
export function percentile(sorted: ArrayLike<number>, share: number): number {
  return sorted.length === 0 ? Number.NaN : sorted[Math.min(sorted.length - 1, Math.floor(sorted.length * share))]!
}

/** A figure with as many digits as it deserves; – for what could not be measured. */
export function figure(value: number | null, digits = 0): string {
  if (value === null || !Number.isFinite(value)) return '–'
  return value.toLocaleString('en-US', { minimumFractionDigits: digits, maximumFractionDigits: digits })
}
