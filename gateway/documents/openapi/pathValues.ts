import { RE2JS } from 're2js'
import { type Matching, normalPath } from '../../paths.ts'

/** Values of a path's parameters by name, as they stand in the path; null: the path is not of this form. */
export type PathValues = (path: string) => ReadonlyMap<string, string> | null

/**
 * Reads the parameters of an OpenAPI path out of the paths that its rule matches. Paths come as the client wrote them,
 * without the listen path: what stands behind `;` belongs to the value, since it goes to the upstream as well.
 * Segments that begin with `;` are none, as in the normal form.
 */
export function pathValues(template: string, matching: Matching['matching']): PathValues {
  const segments = template.split('/').slice(1)
  const whole = segments.map(segment => /^\{([^{}:/]+)\}$/.exec(segment)?.[1] ?? null)
  if (matching !== 'contains' && segments.every((segment, i) => whole[i] !== null || !segment.includes('{'))) {
    const named = whole.flatMap((name, i) => (name === null ? [] : [{ name, i: i - empty(segments, i) }]))
    return path => {
      const given = path.split(/\/|\\|%2f|%5c/i).filter(segment => !/^(?:;|%3b|$)/i.test(segment))
      const values = new Map<string, string>()
      for (const { name, i } of named) {
        if (i >= given.length) return null
        values.set(name, given[i]!)
      }
      return values
    }
  }
  const { source, names } = expressionOf(template)
  let compiled: RE2JS | null = null
  return path => {
    compiled ??= RE2JS.compile(
      `${matching === 'contains' ? '' : '^'}(?:${source})${matching === 'exact' ? '$' : ''}`,
      RE2JS.CASE_INSENSITIVE
    )
    const found = compiled.matcher(normalPath(path))
    return found.find() ? new Map(names.map((name, i) => [name, found.group(`svc${i}`) ?? ''])) : null
  }
}

/** Names of the parameters of a path. */
export function namesIn(template: string): string[] {
  return expressionOf(template).names
}

function empty(segments: readonly string[], before: number): number {
  return segments.slice(0, before).filter(segment => segment === '').length
}

function expressionOf(template: string): { source: string; names: string[] } {
  const names: string[] = []
  let source = ''
  let text = ''
  const literal = () => {
    source += text
      .split('*')
      .map(part => RE2JS.quote(part))
      .join('.*')
    text = ''
  }
  for (let i = 0; i < template.length; i++) {
    if (template[i] !== '{') {
      text += template[i]
      continue
    }
    const end = closing(template, i)
    const inner = template.slice(i + 1, end)
    const colon = inner.indexOf(':')
    literal()
    source += `(?P<svc${names.length}>${colon < 0 ? '[^/]+' : inner.slice(colon + 1)})`
    names.push(colon < 0 ? inner : inner.slice(0, colon))
    i = end
  }
  literal()
  return { source, names }
}

function closing(template: string, open: number): number {
  let depth = 0
  for (let i = open; i < template.length; i++) {
    if (template[i] === '\\') i++
    else if (template[i] === '{') depth++
    else if (template[i] === '}' && --depth === 0) return i
  }
  return template.length
}
