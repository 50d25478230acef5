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
  readonly outcome: 'ignored' | 'defaulted' | 'refused'
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

/** Entries of one keyword and message that are told one by one. */
const MOST_ALIKE = 50
const MOST_ENTRIES = 1000

/** Collects entries: many alike end in one that counts them, very many in one that counts the rest. */
export interface Report {
  /** Something of the description itself. */
  at(place: Place, keyword: string, outcome: Entry['outcome'], message: string): void
  /** The first place stands for all: what is ignored everywhere. */
  everywhere(place: Place, keyword: string, message: string): void
  /** A member of the extension, or a query option (pointer ''). */
  made(pointer: string, keyword: string, outcome: Entry['outcome'], message: string): void
  list(): Entry[]
}

interface Group {
  readonly entries: Entry[]
  readonly most: number
  count: number
}

export function report(): Report {
  const groups = new Map<string, Group>()
  function add(most: number, keyword: string, outcome: Entry['outcome'], message: string, make: () => Entry): void {
    const key = `${outcome} ${keyword}\n${message}`
    const group = groups.get(key) ?? { entries: [], most, count: 0 }
    groups.set(key, group)
    if (group.count++ < most) group.entries.push(make())
  }
  return {
    at: (place, keyword, outcome, message) =>
      add(MOST_ALIKE, keyword, outcome, message, () => entry(place, keyword, outcome, message)),
    everywhere: (place, keyword, message) =>
      add(1, keyword, 'ignored', message, () => entry(place, keyword, 'ignored', message)),
    made: (pointer, keyword, outcome, message) =>
      add(MOST_ALIKE, keyword, outcome, message, () => ({ pointer, keyword, outcome, message })),
    list() {
      const all = [...groups.values()].flatMap(counted)
      if (all.length <= MOST_ENTRIES) return all
      const rest = all.length - MOST_ENTRIES
      const message = `${rest} more entries are not listed`
      return [...all.slice(0, MOST_ENTRIES), { pointer: '', keyword: '', outcome: 'ignored', message }]
    }
  }
}

function counted({ entries, most, count }: Group): readonly Entry[] {
  if (count <= most) return entries
  const last = entries.at(-1)!
  if (most === 1) return [{ ...last, message: `${last.message} (here and in ${count - 1} more places)` }]
  return [...entries.slice(0, -1), { ...last, message: `${last.message} (and in ${count - most} more places)` }]
}

export function entry({ file, pointer }: Place, keyword: string, outcome: Entry['outcome'], message: string): Entry {
  const line = file.lineOf?.(pointer) ?? null
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
