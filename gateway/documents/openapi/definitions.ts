import { isObject, type Report } from '../../../config/report.ts'

/** A value of the document and where it lies, as a JSON pointer. */
export interface Place {
  readonly value: unknown
  readonly path: string
}

export type Members = Record<string, unknown>

/** Longest chain of references to references. */
const MOST_STEPS = 50

/** One OpenAPI document, in which references are looked up. */
export class Definitions {
  readonly document: Readonly<Members>
  /** OpenAPI 3.0: its own dialect of JSON Schema, and nothing beside `$ref` counts. */
  readonly is30: boolean

  constructor(document: Readonly<Members>) {
    this.document = document
    this.is30 = typeof document.openapi === 'string' && document.openapi.startsWith('3.0')
  }

  /** What a reference names, or why it names nothing. */
  resolve(ref: unknown): Place | string {
    if (typeof ref !== 'string') return 'must be a text'
    if (!ref.startsWith('#')) return 'refers outside of the document'
    if (ref !== '#' && !ref.startsWith('#/')) return 'must be a JSON pointer'
    let value: unknown = this.document
    const tokens = ref.split('/')
    for (let i = 1; i < tokens.length; i++) {
      const name = unescaped(tokens[i]!)
      if (typeof value !== 'object' || value === null || !Object.hasOwn(value, name)) return 'refers to nothing'
      value = (value as Members)[name]
    }
    return { value, path: ref.slice(1) }
  }

  /** The value itself or, where it is a reference, what that leads to; null when it leads nowhere, which is reported. */
  follow(given: Place, fault: Report): Place | null {
    let place = given
    for (let i = 0; i < MOST_STEPS; i++) {
      if (!isObject(place.value) || place.value.$ref === undefined) return place
      const found = this.resolve(place.value.$ref)
      if (typeof found === 'string') {
        fault(`${place.path}/$ref`, found)
        return null
      }
      place = found
    }
    fault(`${given.path}/$ref`, 'refers to itself')
    return null
  }

  /** As `follow`, for what was checked already, or is only looked at. */
  followed(value: unknown): unknown {
    return this.follow({ value, path: '' }, silent)?.value
  }
}

function silent(): void {}

function unescaped(token: string): string {
  if (!/[%~]/.test(token)) return token
  let text = token
  try {
    text = decodeURIComponent(token)
  } catch {
    // Then it is meant as it stands.
  }
  return text.replaceAll('~1', '/').replaceAll('~0', '~')
}
