/** What stands at a reference into a document: `#`, or `#` and a JSON pointer (RFC 6901) as a fragment. Undefined: nothing. */
export function at(root: object, reference: string): unknown {
  if (reference === '#') return root
  if (!reference.startsWith('#/')) return undefined
  let fragment: string
  try {
    fragment = decodeURIComponent(reference.slice(2))
  } catch {
    return undefined
  }
  let place: unknown = root
  for (const part of fragment.split('/')) {
    const name = part.replaceAll('~1', '/').replaceAll('~0', '~')
    if (typeof place !== 'object' || place === null || !Object.hasOwn(place, name)) return undefined
    place = (place as Record<string, unknown>)[name]
  }
  return place
}
