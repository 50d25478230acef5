/** `Accept` (RFC 9110 §12.5.1). */
export interface Range {
  /** Lower case, without parameters. */
  readonly type: string
  readonly quality: number
}

/** Longest list that is looked at. */
const MOST_RANGES = 50

/** The ranges of a header in order of preference; a header that says nothing takes anything. */
export function readAccept(header: string): Range[] {
  const ranges = header
    .split(',', MOST_RANGES)
    .map(each => {
      const [type, ...parameters] = each.split(';').map(part => part.trim().toLowerCase())
      const q = parameters.find(parameter => parameter.startsWith('q='))
      const quality = q === undefined ? 1 : Number(q.slice(2))
      return { type: type!, quality: quality >= 0 && quality <= 1 ? quality : 0 }
    })
    .filter(({ type }) => type !== '')
  if (ranges.length === 0) return [{ type: '*/*', quality: 1 }]
  return ranges.sort((a, b) => b.quality - a.quality || stars(a.type) - stars(b.type))
}

/**
 * The one of `offered` that is preferred; undefined: none. Where several will do, it is `usual` or, for want of that and
 * if the range names a kind, the first.
 */
export function accepted(ranges: readonly Range[], offered: readonly string[], usual: string): string | undefined {
  const refused = (type: string) => ranges.some(range => range.quality === 0 && range.type === bare(type))
  for (const { type, quality } of ranges) {
    if (quality === 0) continue
    const open = offered.filter(each => !refused(each))
    const found =
      type === '*/*'
        ? exact(open, usual)
        : type.endsWith('/*')
          ? (exact(
              open.filter(each => within(each, type)),
              usual,
              'alone'
            ) ?? open.find(each => within(each, type)))
          : exact(open, type)
    if (found !== undefined) return found
  }
  return undefined
}

/** The offer of this very type, or one whose range holds it. */
function exact(offered: readonly string[], wanted: string, how: 'alone' | 'ranges' = 'ranges'): string | undefined {
  const type = bare(wanted)
  const own = offered.find(each => bare(each) === type)
  if (own !== undefined || how === 'alone') return own
  return offered.find(each => bare(each) === type.replace(/\/.*/, '/*')) ?? offered.find(each => bare(each) === '*/*')
}

function within(type: string, range: string): boolean {
  return bare(type).startsWith(range.slice(0, -1))
}

function bare(type: string): string {
  return type.split(';', 1)[0]!.trim().toLowerCase()
}

function stars(type: string): number {
  return type.split('*').length
}
