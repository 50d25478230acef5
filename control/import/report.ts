import type { Placed } from '../../config/yaml.ts'
import { Refused } from '../endpoint.ts'

/** What an import made of one keyword of the description, or of one member of the extension. */
export interface Entry {
  /** JSON pointer into the file that it stands in; what the import wrote: into the document that came out. */
  readonly pointer: string
  /** The file, where several were sent. */
  readonly file?: string
  /** Line of YAML, from 1. */
  readonly line?: number
  readonly keyword: string
  /** `warned`: it has its effect, which may be more than was meant, or needs more to be useful. */
  readonly outcome: 'ignored' | 'defaulted' | 'warned' | 'refused'
  readonly message: string
}

/** One file of an import, read. */
export interface SourceFile {
  /** With its folders, `/` between them; '' when there is but one. */
  readonly name: string
  readonly value: unknown
  /** As `Placed.lineOf`; null for JSON. */
  readonly lineOf: Placed['lineOf'] | null
}

/** Where something stands. */
export interface Place {
  readonly file: SourceFile
  readonly pointer: string
}

const MOST_ENTRIES = 2000

/** Collects entries, each with its place; after very many, one counts the rest. */
export interface Report {
  /** Something of the description itself. */
  at(place: Place, keyword: string, outcome: Entry['outcome'], message: string): void
  /** What is ignored in every description: listed after all else, so that it leaves the others their room. */
  remark(place: Place, keyword: string, message: string): void
  /** A member of the extension, or a query option (pointer ''). */
  made(pointer: string, keyword: string, outcome: Entry['outcome'], message: string): void
  list(): Entry[]
}

export function report(): Report {
  const entries: Entry[] = []
  const remarks: Entry[] = []
  let count = 0
  /** Lines are looked up for those alone that are listed. */
  function add(list: Entry[], make: () => Entry): void {
    count++
    if (list.length < MOST_ENTRIES) list.push(make())
  }
  return {
    at: (place, keyword, outcome, message) => add(entries, () => entry(place, keyword, outcome, message)),
    remark: (place, keyword, message) => add(remarks, () => entry(place, keyword, 'ignored', message)),
    made: (pointer, keyword, outcome, message) => add(entries, () => ({ pointer, keyword, outcome, message })),
    list() {
      const listed = [...entries, ...remarks].slice(0, MOST_ENTRIES)
      if (count === listed.length) return listed
      const message = `${count - listed.length} more entries are not listed`
      return [...listed, { pointer: '', keyword: '', outcome: 'ignored', message }]
    }
  }
}

/** @param nearest what has the line, where the place itself is empty */
export function entry(
  { file, pointer }: Place,
  keyword: string,
  outcome: Entry['outcome'],
  message: string,
  nearest = pointer
): Entry {
  const line = file.lineOf?.(nearest) ?? null
  return {
    pointer,
    ...(file.name === '' ? {} : { file: file.name }),
    ...(line === null ? {} : { line }),
    keyword,
    outcome,
    message
  }
}

/** The "no" to an import for something that stands in it. */
export function refuse(place: Place, keyword: string, message: string): Refused {
  const { file, pointer } = place
  const where = `${file.name}${file.name === '' || pointer === '' ? '' : '#'}${pointer}`.slice(0, 500)
  const told = where === '' ? message : `${where} ${message}`
  return new Refused(400, told, { more: { report: [entry(place, keyword, 'refused', message)] } })
}
