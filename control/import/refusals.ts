import { isObject } from '../../config/report.ts'
import { type Entry, entry, type Place } from './report.ts'
import type { Source } from './source.ts'

/** A fault of the document that an import made, by its JSON pointer there. */
export interface Told {
  readonly pointer: string
  readonly message: string
}

/** What is refused, with the file and line that it came from; what the import itself wrote has none. */
export function refusals(faults: readonly Told[], source: Source): Entry[] {
  return faults.map(({ pointer, message }) => {
    const keyword = pointer.slice(pointer.lastIndexOf('/') + 1)
    if (pointer.startsWith('/x-svc-')) return { pointer, keyword, outcome: 'refused', message }
    const { place, nearest } = placeOf(pointer, source)
    return entry(place, keyword, 'refused', message, nearest)
  })
}

/** Where a value of the description in one piece stood. */
export function origin(pointer: string, source: Source): Place {
  return placeOf(pointer, source).place
}

/** `nearest`: where the innermost value around it is that exists. */
function placeOf(pointer: string, { document, origins, root }: Source): { place: Place; nearest: string } {
  let value: unknown = document
  let place: Place = { file: root, pointer: '' }
  let nearest = ''
  for (const segment of pointer.split('/').slice(1)) {
    const name = segment.replaceAll('~1', '/').replaceAll('~0', '~')
    value = memberOf(value, name)
    const origin = typeof value === 'object' && value !== null ? origins.get(value) : undefined
    place = origin ?? { file: place.file, pointer: `${place.pointer}/${segment}` }
    if (value !== undefined) nearest = place.pointer
  }
  return { place, nearest }
}

function memberOf(value: unknown, name: string): unknown {
  if (Array.isArray(value)) return value[Number(name)]
  return isObject(value) && Object.hasOwn(value, name) ? value[name] : undefined
}
