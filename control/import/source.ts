import { setImmediate as nextTurn } from 'node:timers/promises'
import { isObject } from '../../config/report.ts'
import { Invalid } from '../../config/validate.ts'
import type { Clock } from '../../config/world.ts'
import { parseJson } from '../../config/yaml.ts'
import { EXTENSION } from '../../gateway/api.ts'
import { Refused } from '../endpoint.ts'
import { readPlacedYaml } from '../yaml.ts'
import { type Bundle, bundle } from './bundle.ts'
import { fetched } from './fetch.ts'
import { type Described, describedOperations } from './operations.ts'
import { formParts, isZip, mediaType, type Part, type Parts, zipParts } from './parts.ts'
import { joined, nameOf, pathOf, pieces } from './references.ts'
import { refuse, type SourceFile } from './report.ts'

/** What an import is given. */
export interface Input {
  readonly body: Buffer
  /** The header, with its parameters; '' when absent. */
  readonly contentType: string
}

export interface Bounds {
  /** `management.max_body_size`: of what is fetched, and of what is unpacked. */
  readonly mostBytes: number
  /** `management.import_private_networks` */
  readonly privateNetworks: readonly string[]
  readonly clock: Clock
}

/** A description without the gateway's extension, in one piece. */
export interface Source extends Bundle {
  readonly root: SourceFile
  readonly operations: readonly Described[]
}

type Members = Record<string, unknown>
/** The `data` of an asset: the description is laid over it. */
export type Template = Readonly<Members> | null

const ONE = ''

/**
 * A description from the body of a call: JSON, YAML, a zip file, a form with files, or `{"url": …}`.
 * @throws Invalid where text is neither JSON nor YAML; Refused 400, 413
 */
export async function readSource(input: Input, bounds: Bounds, template: Template = null): Promise<Source> {
  const { root, files, flat } = await readFiles(input, bounds)
  checkRoot(root)
  // Large descriptions take tens of milliseconds a step; requests get their turn in between.
  await nextTurn()
  if (template !== null) lay(root.value as Members, without(template, EXTENSION))
  const whole = bundle(root, pieces(files, { flat }), bounds.mostBytes)
  return { root, ...whole, operations: describedOperations(whole, root) }
}

/** The files that one description is made of. */
interface Files {
  readonly root: SourceFile
  readonly files: ReadonlyMap<string, SourceFile>
  readonly flat: boolean
}

async function readFiles({ body, contentType }: Input, bounds: Bounds): Promise<Files> {
  const sent = mediaType(contentType) === 'multipart/form-data' ? await form(body, contentType, bounds.mostBytes) : null
  if (sent !== null) return joinedUp(sent)
  const single = { name: ONE, bytes: body, contentType: mediaType(contentType) }
  if (isZip(body)) return joinedUp(await zip(single, bounds.mostBytes))
  const file = await read(single)
  const url = onlyUrl(file.value)
  if (url === null) return alone(file)
  const answer = { name: ONE, ...(await fetched(url, bounds)) }
  if (isZip(answer.bytes)) return joinedUp(await zip(answer, bounds.mostBytes))
  return alone(await read(answer))
}

function alone(root: SourceFile): Files {
  return { root, files: new Map([[ONE, root]]), flat: false }
}

function onlyUrl(value: unknown): string | null {
  if (!isObject(value) || Object.keys(value).length !== 1 || !Object.hasOwn(value, 'url')) return null
  if (typeof value.url !== 'string') throw new Refused(400, 'url must be a text')
  return value.url
}

async function form(body: Buffer, contentType: string, mostBytes: number): Promise<Parts> {
  const given = await formParts(body, contentType)
  const parts: Part[] = []
  let left = mostBytes
  let flat = true
  for (const part of given.parts) {
    if (isZip(part.bytes)) {
      flat = false
      const inside = await zipParts(part.bytes, left)
      left -= inside.reduce((size, { bytes }) => size + bytes.length, 0)
      parts.push(...inside)
    } else parts.push(part)
  }
  return { parts, root: given.root, flat }
}

async function zip({ bytes }: Part, mostBytes: number): Promise<Parts> {
  return { parts: await zipParts(bytes, mostBytes), root: null, flat: false }
}

/** Reads the description and, one after the other, the files that it refers to; others are not looked at. */
async function joinedUp({ parts, root: wanted, flat }: Parts): Promise<Files> {
  const sent = new Map<string, Part>()
  for (const part of parts) {
    const name = joined('', part.name.replaceAll('\\', '/'))
    if (name === null || name === '') throw new Refused(400, `a file is called ${JSON.stringify(shown(part.name))}`)
    if (sent.has(name)) throw new Refused(400, `two files are called ${JSON.stringify(shown(name))}`)
    sent.set(name, { ...part, name })
  }
  const files = new Map<string, SourceFile>()
  const take = async (part: Part): Promise<SourceFile> => {
    await nextTurn()
    const file = files.get(part.name) ?? (await read(part))
    files.set(part.name, file)
    return file
  }
  const root = await rootOf(sent, wanted, take)
  // The list grows while it is walked, and the walk comes to what was added.
  const reached = new Set([root])
  for (const file of reached)
    for (const path of pathsIn(file.value)) {
      const name = nameOf(path, file.name, { names: sent, flat })
      if (name !== null) reached.add(await take(sent.get(name)!))
    }
  return { root, files, flat }
}

type Take = (part: Part) => Promise<SourceFile>

/** The one that is named, or the one with `openapi` at its top that lies least deep. */
async function rootOf(sent: ReadonlyMap<string, Part>, wanted: string | null, take: Take): Promise<SourceFile> {
  if (sent.size === 0) throw new Refused(400, 'no file with a description was sent')
  if (wanted !== null) {
    const name = nameOf(wanted, '', { names: sent, flat: true })
    if (name === null) throw new Refused(400, `the description ${JSON.stringify(shown(wanted))} was not sent`)
    return take(sent.get(name)!)
  }
  if (sent.size === 1) return take([...sent.values()][0]!)
  const levels = Map.groupBy(
    [...sent.values()].filter(({ bytes }) => MAY_BE_ROOT.test(bytes.toString('latin1'))),
    ({ name }) => name.split('/').length
  )
  for (const level of [...levels.keys()].sort((a, b) => a - b)) {
    const found: SourceFile[] = []
    for (const part of levels.get(level)!) {
      const file = await take(part)
      if (isObject(file.value) && (Object.hasOwn(file.value, 'openapi') || Object.hasOwn(file.value, 'swagger')))
        found.push(file)
    }
    if (found.length > 1) {
      const names = found.map(({ name }) => shown(name)).join(', ')
      throw new Refused(400, `several files have openapi at their top (${names.slice(0, 500)}): name one in root`)
    }
    if (found.length === 1) return found[0]!
  }
  throw new Refused(400, 'no file has openapi at its top')
}

/** Cheap to ask before a file is read; what stands deeper is told apart afterwards. */
const MAY_BE_ROOT = /(?:^|[\n\r{,\xbf])[ \t]*["']?(?:openapi|swagger)["']?[ \t]*:/

/** The paths of all references in a file, whatever they stand for. */
function pathsIn(value: unknown, found = new Set<string>()): Set<string> {
  if (Array.isArray(value)) for (const inner of value) pathsIn(inner, found)
  else if (isObject(value))
    for (const [name, inner] of Object.entries(value)) {
      if (name === '$ref' && typeof inner === 'string') found.add(pathOf(inner))
      else if (name === 'mapping' && isObject(inner))
        for (const each of Object.values(inner)) if (typeof each === 'string') found.add(pathOf(each))
      pathsIn(inner, found)
    }
  found.delete('')
  return found
}

/** One file as text. @throws Invalid; as `readPlacedYaml` */
async function read({ name, bytes, contentType }: Part): Promise<SourceFile> {
  const inFile = (message: string) => (name === '' ? message : `${shown(name)}: ${message}`)
  let text: string
  try {
    text = new TextDecoder('utf-8', { fatal: true }).decode(bytes)
  } catch {
    throw new Refused(400, inFile('is not UTF-8'))
  }
  const first = text.trimStart()[0]
  if (first === undefined) throw new Invalid([{ path: '', message: inFile('is empty') }])
  const isYaml = /yaml|yml/.test(contentType) || /\.ya?ml$/i.test(name)
  const isJson = !isYaml && (/json/.test(contentType) || /\.json$/i.test(name))
  try {
    if (first === '{' || first === '[') {
      try {
        return { name, value: parseJson(text, 'exact'), lineOf: null }
      } catch (cause) {
        // YAML writes maps in braces too, with looser rules.
        if (isJson || !(cause instanceof Invalid) || !cause.message.startsWith('is not JSON')) throw cause
      }
    }
    return { name, ...(await readPlacedYaml(text)) }
  } catch (cause) {
    if (!(cause instanceof Invalid) || name === '') throw cause
    throw new Invalid(cause.faults.map(({ path, message }) => ({ path: '', message: inFile(`${path} ${message}`) })))
  }
}

/** @throws Refused 400 for what is no description that can be imported */
function checkRoot(root: SourceFile): void {
  const { value } = root
  const at = (pointer: string) => ({ file: root, pointer })
  if (!isObject(value)) throw refuse(at(''), '', 'the description must be an object')
  if (Object.hasOwn(value, 'swagger'))
    throw refuse(at('/swagger'), 'swagger', 'is not supported: convert the description to OpenAPI 3.0 or 3.1')
  const version = value.openapi
  if (version === undefined) throw refuse(at(''), 'openapi', 'the description must have openapi')
  if (typeof version !== 'string' || !/^3\.[01]\.\d{1,9}$/.test(version))
    throw refuse(at('/openapi'), 'openapi', 'must be 3.0.x or 3.1.x, as a text')
  if (Object.hasOwn(value, EXTENSION)) throw new Refused(400, `the import payload should not contain ${EXTENSION}`)
}

/** Gives `over` what `under` has more; lists are wholes. */
function lay(over: Members, under: Readonly<Members>): void {
  for (const [name, value] of Object.entries(under)) {
    const own = Object.hasOwn(over, name) ? over[name] : undefined
    if (own === undefined) over[name] = value
    else if (isObject(own) && isObject(value) && typeof own.$ref !== 'string') lay(own, value)
  }
}

function without(members: Readonly<Members>, name: string): Members {
  return Object.fromEntries(Object.entries(members).filter(([each]) => each !== name))
}

function shown(name: string): string {
  return name.length > 100 ? `${name.slice(0, 100)}…` : name
}
