import { createHash } from 'node:crypto'
import { readdir, readFile, stat } from 'node:fs/promises'
import { join } from 'node:path'
import { setImmediate as nextTurn } from 'node:timers/promises'
import { Invalid } from '../config/validate.ts'
import type { Log, Random } from '../config/world.ts'
import { parseJson, parseYaml } from '../config/yaml.ts'
import type { Api } from './api.ts'
import type { Changes } from './changes/changes.ts'
import { namedId, type Reading, readApi, withId } from './documents/readApi.ts'
import type { Document, Revision, Sequence, Store, Write } from './store/store.ts'

export type * from './api.ts'

/** Changed ones come as they are now; removed ones by id. When it resolves, requests are served by them. */
export type ApisListener = (changed: readonly Api[], removed: readonly string[]) => void | Promise<void>

/**
 * Commits the write of an API, and what its writer adds to it.
 * @param rev that the document has afterwards; of a deletion, the one that it had
 */
export type ApiCommit = (write: Write, rev: Revision) => Promise<Sequence>

/** All API documents: those of the folder and those of the store, read. */
export interface Apis {
  get(id: string): Api | null
  /** By its id, else by its database id. */
  find(id: string): Api | null
  /** The present revision; 0: it comes from a file, or there is none. */
  revision(id: string): Revision
  /** In order of their ids. */
  all(): readonly Api[]
  /**
   * Reads folder and store again. A fault in the folder, or between folder and store, keeps the old state; a stored
   * document that cannot be read is logged and left out. Answers the faults. Works in slices of a few milliseconds.
   */
  load(): Promise<readonly string[]>
  /**
   * Keeps a document; one without an id gets one. Resolves once it is safe and requests are served by it.
   * `replaces`: the id of the one whose place it takes; null: it is new.
   * @throws Invalid for its faults; ApiRefused; Conflict when another process wrote it meanwhile; what `commit` throws
   */
  save(document: unknown, replaces: string | null, commit?: ApiCommit): Promise<Api>
  /** @throws ApiRefused; Conflict; what `commit` throws */
  remove(id: string, commit?: ApiCommit): Promise<void>
  /** The answer ends the listening. */
  onChange(listener: ApisListener): () => void
  /** Hears of no more changes. */
  close(): void
}

/** Why an API cannot be written. */
export class ApiRefused extends Error {
  readonly reason: 'unknown' | 'id taken' | 'other id' | 'path taken' | 'file'
  constructor(reason: ApiRefused['reason'], message: string) {
    super(message)
    this.reason = reason
  }
}

export interface ApisGiven {
  readonly store: Store
  readonly changes: Changes
  readonly log: Log
  readonly random: Random
  /** `gateway.app_path`; '': no folder. */
  readonly folder: string
  /** `gateway.endpoint_matching` */
  readonly matching: Reading['matching']
}

interface Kept {
  readonly api: Api
  /** Tells one content from another: the revision, or the file's hash. */
  readonly stamp: string
  /** Of a stored one; 0 for a file. */
  readonly rev: number
  /** Host and listen path, whatever its placeholders are called; null: it has no route, so it takes none. */
  readonly place: string | null
}

type State = ReadonlyMap<string, Kept>

const STORE = 'store'
const OTHER_ID = 'Request APIID does not match that in Definition! For Update operations these must match.'
const MAX_FILE = 10 * 1024 * 1024
/** How long reading goes on before requests get their turn. */
const SLICE_MS = 4

export function apis({ store, changes, log, random, folder, matching }: ApisGiven): Apis {
  let state: State = new Map()
  let sorted: readonly Api[] | null = null
  const listeners = new Set<ApisListener>()
  // Two queues, always entered in this order: one write at a time, and within it (or for another process's write) one
  // change of the state at a time.
  const writing = queue()
  const applying = queue()

  async function swap(next: State): Promise<void> {
    const changed = [...next.values()].filter(({ api }) => state.get(api.id)?.api !== api).map(({ api }) => api)
    const removed = [...state.keys()].filter(id => !next.has(id))
    state = next
    sorted = null
    if (changed.length + removed.length === 0) return
    for (const listener of listeners) await listener(changed, removed)
  }

  /** Takes over what the store says now about some ids. */
  async function refresh(ids: readonly string[]): Promise<void> {
    const next = new Map(state)
    for (const id of ids) {
      const before = next.get(id)
      const document = await store.get('api', id)
      if (before !== undefined && before.api.source !== STORE) {
        if (document !== null) log.error('API left out: its id is taken', { api_id: id, file: before.api.source })
        continue
      }
      const now = document === null ? null : stored(document, before)
      const holder = now === null ? null : holderOf(next, now)
      if (holder !== null) log.error('API left out: its listen path is taken', { api_id: id, holder: holder.id })
      if (now === null || holder !== null) next.delete(id)
      else next.set(id, now)
    }
    await swap(next)
  }

  /** Null when it cannot be read: another version wrote it. */
  function stored(document: Document, before: Kept | undefined): Kept | null {
    const stamp = `${document.rev}.${document.sequence}`
    if (before?.stamp === stamp && before.api.source === STORE) return before
    try {
      return kept(readApi(document.body, { source: STORE, matching }), stamp, document.rev)
    } catch (cause) {
      if (!(cause instanceof Invalid)) throw cause
      log.error('API left out: its document has faults', { api_id: document.id, faults: cause.faults })
      return null
    }
  }

  async function readAll(faults: string[]): Promise<State> {
    const next = new Map<string, Kept>()
    const places = new Map<string, Api>()
    const breathe = slices()
    const take = (now: Kept) => {
      const { api, place } = now
      const same = next.get(api.id)
      const holder = place === null ? undefined : places.get(place)
      if (same !== undefined) faults.push(`API ${api.id} is in ${same.api.source} and in ${api.source}`)
      else if (holder !== undefined) faults.push(taken(api, holder))
      else {
        next.set(api.id, now)
        if (place !== null) places.set(place, api)
      }
    }
    const bySource = new Map([...state.values()].map(before => [before.api.source, before]))
    for (const file of await filesOf(folder, faults)) {
      const now = await fromFile(file, faults, bySource.get(file))
      if (now !== null) take(now)
      await breathe()
    }
    for await (const documents of store.each('api', {})) {
      for (const document of documents) {
        const now = stored(document, state.get(document.id))
        if (now !== null) take(now)
        await breathe()
      }
    }
    return next
  }

  async function fromFile(file: string, faults: string[], before: Kept | undefined): Promise<Kept | null> {
    try {
      if ((await stat(file)).size > MAX_FILE) throw new Error(`is longer than ${MAX_FILE} bytes`)
      const text = await readFile(file, 'utf8')
      const stamp = createHash('sha256').update(text).digest('hex')
      if (before?.stamp === stamp) return before
      const document = file.endsWith('.json') ? parseJson(text, 'exact') : parseYaml(text, 'exact')
      return kept(readApi(document, { source: file, matching }), stamp, 0)
    } catch (cause) {
      if (!(cause instanceof Invalid)) faults.push(`${file}: ${(cause as Error).message}`)
      else
        for (const { path, message } of cause.faults) faults.push(`${file}: ${path === '' ? '' : `${path} `}${message}`)
      return null
    }
  }

  /** The one that a write is about; it must lie in the store. */
  function writable(id: string): Kept {
    const present = state.get(id)
    if (present === undefined) throw new ApiRefused('unknown', 'API not found')
    const { source } = present.api
    if (source !== STORE) throw new ApiRefused('file', `API ${id} is read from ${source} and cannot be changed here`)
    return present
  }

  const stop = changes.listen(list => {
    const ids = list.filter(({ kind }) => kind === 'api').map(({ id }) => id)
    return ids.length === 0 ? undefined : applying(() => refresh(ids))
  })

  const alone: ApiCommit = write => store.commit([write])

  return {
    get: id => state.get(id)?.api ?? null,
    find(id) {
      const byId = state.get(id)
      if (byId !== undefined) return byId.api
      if (id === '') return null
      for (const { api } of state.values()) if (api.dbId === id) return api
      return null
    },
    revision: id => state.get(id)?.rev ?? 0,
    all() {
      sorted ??= [...state.values()].map(({ api }) => api).sort((a, b) => (a.id < b.id ? -1 : 1))
      return sorted
    },
    load: () =>
      writing(() =>
        applying(async () => {
          const faults: string[] = []
          const next = await readAll(faults)
          if (faults.length === 0) await swap(next)
          return faults
        })
      ),
    save: (document, replaces, commit = alone) =>
      writing(async () => {
        const before = replaces === null ? null : writable(replaces)
        const body = withId(document, replaces ?? newId(random))
        if (replaces !== null && (namedId(body) ?? replaces) !== replaces) throw new ApiRefused('other id', OTHER_ID)
        const api = readApi(body, { source: STORE, matching })
        if (before === null && state.has(api.id)) throw new ApiRefused('id taken', `API id ${api.id} is taken`)
        const holder = holderOf(state, kept(api, '', 0))
        if (holder !== null) throw new ApiRefused('path taken', taken(api, holder))
        const { id, orgId } = api
        const rev = before?.rev ?? 0
        const sequence = await commit({ kind: 'api', id, org: orgId, body, expect: rev }, rev + 1)
        await changes.publish([{ sequence, kind: 'api', id, deleted: false }])
        return api
      }),
    remove: (id, commit = alone) =>
      writing(async () => {
        const { rev } = writable(id)
        const sequence = await commit({ kind: 'api', id, body: null, expect: rev }, rev)
        await changes.publish([{ sequence, kind: 'api', id, deleted: true }])
      }),
    onChange(listener) {
      listeners.add(listener)
      return () => void listeners.delete(listener)
    },
    close() {
      stop()
      listeners.clear()
    }
  }
}

function kept(api: Api, stamp: string, rev: number): Kept {
  const { active, internal, domain, listenSegments } = api
  const place = active && !internal ? `${domain}/${listenSegments.map(segment => segment ?? '{}').join('/')}` : null
  return { api, stamp, rev, place }
}

/** Who else has the place. */
function holderOf(state: State, { api, place }: Kept): Api | null {
  if (place === null) return null
  for (const other of state.values()) if (other.place === place && other.api.id !== api.id) return other.api
  return null
}

function taken(api: Api, holder: Api): string {
  const where = api.domain === '' ? '' : ` on ${api.domain}`
  return `The listen path ${api.listenPath}/${where} of API ${named(api)} is taken by API ${named(holder)}`
}

function named({ id, name, source }: Api): string {
  return source === STORE ? `${id} (${name})` : `${id} (${name}, ${source})`
}

/** A UUID (version 4) without dashes. */
function newId(random: Random): string {
  const bytes = random.bytes(16)
  bytes[6] = (bytes[6]! & 0x0f) | 0x40
  bytes[8] = (bytes[8]! & 0x3f) | 0x80
  return bytes.toString('hex')
}

async function filesOf(folder: string, faults: string[]): Promise<string[]> {
  if (folder === '') return []
  try {
    const names = await readdir(folder)
    return names
      .filter(name => /^[^.].*\.(?:json|ya?ml)$/.test(name))
      .sort()
      .map(name => join(folder, name))
  } catch (cause) {
    faults.push(`${folder}: ${(cause as Error).message}`)
    return []
  }
}

/** Runs one task at a time, in the order in which they came; a task that fails holds up none. */
function queue(): <T>(task: () => Promise<T>) => Promise<T> {
  let last: Promise<unknown> = Promise.resolve()
  return task => {
    const run = last.then(task)
    last = run.catch(() => undefined)
    return run
  }
}

/** To be awaited often: lets requests have their turn whenever a slice is over. */
function slices(): () => Promise<void> | undefined {
  let until = performance.now() + SLICE_MS
  return () => {
    if (performance.now() < until) return undefined
    return nextTurn().then(() => {
      until = performance.now() + SLICE_MS
    })
  }
}
