import { readdirSync, readFileSync, statSync } from 'node:fs'
import { extname, join } from 'node:path'
import { isObject } from '../../config/report.ts'
import { Invalid } from '../../config/validate.ts'
import { parseJson, parseYaml } from '../../config/yaml.ts'
import { EXTENSION } from '../../gateway/api.ts'

// biome-ignore lint/suspicious/noExplicitAny: documents of every shape are looked at, member by member.
export type Json = any

export const kinds = ['asset', 'policy', 'api', 'key'] as const
export type DocumentKind = (typeof kinds)[number]

/** One document of the files, with the place that people look for. */
export interface Given {
  readonly kind: DocumentKind
  readonly id: string
  readonly body: Record<string, Json>
  readonly file: string
}

/** What keeps files from being used: one line a fault, each with its file. */
export class Faulty extends Error {
  constructor(faults: readonly string[]) {
    super(faults.join('\n'))
  }
}

const SEVERAL = 'holds several documents: each needs a file of its own'
const ENDINGS = ['.json', '.yaml', '.yml']
const LISTS = { assets: 'asset', policies: 'policy', keys: 'key' } as const

/**
 * Reads files and folders (with what lies below them). A file is an OpenAPI document with our extension, or holds `asset:`,
 * `policy:`, `key:`, or lists of them as `assets:`, `policies:`, `keys:`.
 * @throws Faulty with every fault
 */
export function readDocuments(paths: readonly string[]): Given[] {
  const faults: string[] = []
  const given: Given[] = []
  for (const file of paths.flatMap(path => filesIn(path, faults))) {
    try {
      const text = readFileSync(file, 'utf8')
      const content = extname(file) === '.json' ? parseJson(text, 'exact') : parseYaml(text, 'exact')
      given.push(...documentsOf(content, file, faults))
    } catch (cause) {
      const told =
        cause instanceof Invalid
          ? cause.faults.map(({ path, message }) => `${path} ${message}`.trim())
          : [String(cause)]
      faults.push(...told.map(text => `${file}: ${/parseAllDocuments/.test(text) ? SEVERAL : text}`))
    }
  }
  const seen = new Map<string, string>()
  for (const { kind, id, file } of given) {
    const before = seen.get(`${kind} ${id}`)
    if (before !== undefined) faults.push(`${file}: ${kind} ${id} stands in ${before} too`)
    seen.set(`${kind} ${id}`, file)
  }
  if (faults.length > 0) throw new Faulty(faults)
  return given
}

function filesIn(path: string, faults: string[]): string[] {
  try {
    if (!statSync(path).isDirectory()) return [path]
    const names = readdirSync(path, { withFileTypes: true }).sort((a, b) => (a.name < b.name ? -1 : 1))
    return names.flatMap(entry => {
      if (entry.name.startsWith('.') || entry.name === 'node_modules') return []
      const inner = join(path, entry.name)
      return entry.isDirectory() ? filesIn(inner, faults) : ENDINGS.includes(extname(entry.name)) ? [inner] : []
    })
  } catch (cause) {
    faults.push(
      `${path}: ${(cause as NodeJS.ErrnoException).code === 'ENOENT' ? 'there is no such file or folder' : String(cause)}`
    )
    return []
  }
}

function documentsOf(content: unknown, file: string, faults: string[]): Given[] {
  if (!isObject(content)) {
    faults.push(`${file}: must hold an object`)
    return []
  }
  if (Object.hasOwn(content, 'openapi')) return one('api', content, apiId(content), file, faults)
  const found: Given[] = []
  for (const [name, value] of Object.entries(content)) {
    const single = kinds.find(kind => kind === name && kind !== 'api')
    const many = Object.hasOwn(LISTS, name) ? LISTS[name as keyof typeof LISTS] : undefined
    if (single !== undefined) found.push(...one(single, value, idOf(value), file, faults))
    else if (many !== undefined && Array.isArray(value))
      found.push(...value.flatMap(each => one(many, each, idOf(each), file, faults)))
    else
      faults.push(
        `${file}: ${name} is not known here: an OpenAPI document, asset, policy or key is expected, or a list of assets, policies or keys`
      )
  }
  return found
}

function one(kind: DocumentKind, body: unknown, id: string | null, file: string, faults: string[]): Given[] {
  if (isObject(body) && id !== null) return [{ kind, id, body, file }]
  const place = kind === 'api' ? `${EXTENSION}.info.id` : 'id'
  faults.push(
    `${file}: ${kind}: ${isObject(body) ? `${place} is required, so that a second run finds it again` : 'must be an object'}`
  )
  return []
}

function idOf(body: unknown): string | null {
  return isObject(body) && typeof body.id === 'string' && body.id !== '' ? body.id : null
}

function apiId(document: Record<string, unknown>): string | null {
  const extension = document[EXTENSION]
  return isObject(extension) ? idOf(extension.info) : null
}
