import { basename } from 'node:path'
import { Invalid } from '../config/validate.ts'
import type { Log, Random } from '../config/world.ts'
import type { Api } from './api.ts'
import type { Changes } from './changes/changes.ts'
import { type ApiFile, filesOf, readApiFile } from './documents/apiFolder.ts'
import { unescapeDots } from './documents/dots.ts'
import { disk, type Files } from './documents/files.ts'
import { namedId, type Reading, readApi, withId } from './documents/readApi.ts'
import { fromStored, toStored } from './documents/storedApi.ts'
import { queue, slices } from './documents/turns.ts'
import { ApiRefused, listenPaths, placeOf } from './listenPaths.ts'
import type { Document, Revision, Sequence, Store, Write } from './store/store.ts'

export type * from './api.ts'
export { ApiRefused } from './listenPaths.ts'

/** Changed ones come as they are now; removed ones by id. When it resolves, requests are served by them. */
export type ApisListener = (changed: readonly Api[], removed: readonly string[]) => void | Promise<void>

/** A write of an API, checked and about to be committed. */
export interface ApiWrite {
  readonly write: Write
  /** Committed with it: who has a listen path, so that no two processes give it away. */
  readonly claims: readonly Write[]
  /** That the document has afterwards; of a deletion, the one that it had. */
  readonly rev: Revision
  /** Null: it is new. */
  readonly before: Api | null
  /** Null: a deletion. */
  readonly after: Api | null
  /** The document as it lies in the store (`fromStored` reads it); null: a deletion. */
  readonly stored: unknown
}

/** Commits it, and what its writer adds to it. */
export type ApiCommit = (what: ApiWrite) => Promise<Sequence>

/** How a document is kept. */
export interface Keeping {
  readonly commit?: ApiCommit
  /** Now, milliseconds since the epoch; absent: its times are unknown. */
  readonly at?: number
  /** `management.escape_dots_in_oas_paths` */
  readonly escapeDots?: boolean
}

/** One API among all, with what is known of its writing. */
export interface ApiRow {
  readonly api: Api
  /** 0: it comes from a file. */
  readonly rev: Revision
  /** Of its last write; 0: it comes from a file. */
  readonly sequence: Sequence
  /** Milliseconds since the epoch; null: unknown. */
  readonly created: number | null
  readonly updated: number | null
}

/** All API documents: those of the folder and those of the store, read. */
export interface Apis {
  get(id: string): Api | null
  /** By its id, else by its database id. */
  find(id: string): Api | null
  /** The present revision; 0: it comes from a file, or there is none. */
  revision(id: string): Revision
  /** In order of their ids. */
  all(): readonly Api[]
  /** In order of their creation, those of the folder first; the same list until something changes. */
  rows(): readonly ApiRow[]
  /**
   * Reads folder and store again. A fault in the folder, or between folder and store, keeps the old state; a stored
   * document that cannot be read is logged and left out. Answers the faults. Works in slices of a few milliseconds.
   * `files`: where the folder is read from.
   */
  load(files?: Files): Promise<readonly string[]>
  /** Takes over what the store says now about one, before the news of another process's write has come. @throws Unavailable */
  reread(id: string): Promise<void>
  /**
   * Keeps a document; one without an id gets one. Resolves once it is safe and requests are served by it.
   * `replaces`: the id of the one whose place it takes; null: it is new.
   * @throws Invalid for its faults; ApiRefused; Conflict when another process wrote it meanwhile; what `commit` throws
   */
  save(document: unknown, replaces: string | null, how?: Keeping): Promise<Api>
  /** @throws ApiRefused; Conflict; what `commit` throws */
  remove(id: string, commit?: ApiCommit): Promise<void>
  /** The answer ends the listening. */
  onChange(listener: ApisListener): () => void
  /** Hears of no more changes. */
  close(): void
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

interface Kept extends ApiRow {
  /** Tells one content from another: revision and sequence, or the file's hash. */
  readonly stamp: string
  /** Host and listen path, whatever its placeholders are called; null: it has no route, so it takes none. */
  readonly place: string | null
}

type State = Map<string, Kept>

const STORE = 'store'
const OTHER_ID = 'Request APIID does not match that in Definition! For Update operations these must match.'

export function apis({ store, changes, log, random, folder, matching }: ApisGiven): Apis {
  // Changed in place, a few entries at a time: a copy of 10,000 for each write would make many writes quadratic.
  let state: State = new Map()
  /** Who has which place. */
  let places = new Map<string, string>()
  /** Ids by database id. */
  let byDbId = new Map<string, string>()
  let sorted: readonly Api[] | null = null
  let rows: readonly ApiRow[] | null = null
  /** What is being written here, so that it is read once. */
  const written = new Map<string, Kept>()
  const listeners = new Set<ApisListener>()
  // Two queues, always entered in this order: one write at a time, and within it (or for another process's write) one
  // change of the state at a time.
  const writing = queue()
  const applying = queue()

  async function tell(changed: readonly Api[], removed: readonly string[]): Promise<void> {
    sorted = null
    rows = null
    if (changed.length + removed.length === 0) return
    for (const listener of listeners) await listener(changed, removed)
  }

  async function swap(next: State): Promise<void> {
    const changed = [...next.values()].filter(({ api }) => state.get(api.id)?.api !== api).map(({ api }) => api)
    const removed = [...state.keys()].filter(id => !next.has(id))
    state = next
    places = new Map()
    byDbId = new Map()
    for (const each of next.values()) index(each)
    await tell(changed, removed)
  }

  function index({ place, api: { id, dbId } }: Kept): void {
    if (place !== null) places.set(place, id)
    if (dbId !== '') byDbId.set(dbId, id)
  }

  function unindex({ place, api: { id, dbId } }: Kept): void {
    if (place !== null && places.get(place) === id) places.delete(place)
    if (byDbId.get(dbId) === id) byDbId.delete(dbId)
  }

  /** Who else has the place. */
  function holderOf({ api, place }: Pick<Kept, 'api' | 'place'>): Api | null {
    const id = place === null ? undefined : places.get(place)
    return id === undefined || id === api.id ? null : state.get(id)!.api
  }

  /** Takes over what the store says now about some ids. */
  async function refresh(ids: readonly string[]): Promise<void> {
    const found = new Map<string, Kept | null>()
    const breathe = slices()
    for (const id of new Set(ids)) {
      const document = await store.get('api', id)
      const before = state.get(id)
      if (before !== undefined && before.api.source !== STORE) {
        if (document !== null) log.error('API left out: its id is taken', { api_id: id, file: before.api.source })
        continue
      }
      found.set(id, document === null ? null : stored(document, before))
      await breathe()
    }
    const changed: Api[] = []
    const removed: string[] = []
    // All leave their places first: one may have taken the place that another had.
    for (const id of found.keys()) {
      const before = state.get(id)
      if (before !== undefined) unindex(before)
    }
    for (const [id, now] of found) {
      const before = state.get(id)
      const holder = now === null ? null : holderOf(now)
      if (holder !== null) log.error('API left out: its listen path is taken', { api_id: id, holder: holder.id })
      if (now !== null && holder === null) {
        state.set(id, now)
        index(now)
        if (before?.api !== now.api) changed.push(now.api)
      } else if (before !== undefined) {
        state.delete(id)
        removed.push(id)
      }
    }
    await tell(changed, removed)
  }

  /** The same for everything in the store, after changes were missed; what comes from files stays. */
  async function refreshAll(): Promise<void> {
    const ids = new Set([...state.values()].filter(({ api }) => api.source === STORE).map(({ api }) => api.id))
    for await (const documents of store.each('api', { idsOnly: true })) for (const { id } of documents) ids.add(id)
    await refresh([...ids])
  }

  /** Null when it cannot be read: another version wrote it. */
  function stored(document: Document, before: Kept | undefined): Kept | null {
    const { id, body, rev, sequence } = document
    const stamp = stampOf(document)
    if (before?.stamp === stamp && before.api.source === STORE) return before
    const own = written.get(id)
    if (own?.stamp === stamp) return own
    try {
      const { document, ...times } = fromStored(body)
      return kept(readApi(document, { source: STORE, matching }), { ...times, rev, sequence, stamp })
    } catch (cause) {
      if (!(cause instanceof Invalid)) throw cause
      log.error('API left out: its document has faults', { api_id: id, faults: cause.faults })
      return null
    }
  }

  async function readAll(files: Files, faults: string[]): Promise<State> {
    const next = new Map<string, Kept>()
    const places = new Map<string, Api>()
    const breathe = slices()
    const take = (now: Kept) => {
      const { api, place } = now
      const same = next.get(api.id)
      const holder = place === null ? undefined : places.get(place)
      const givesWay = api.source === STORE && files.areAccepted
      if (same !== undefined && givesWay)
        log.error('API left out: its id is taken', { api_id: api.id, file: same.api.source })
      else if (same !== undefined) faults.push(`API ${api.id} is in ${same.api.source} and in ${api.source}`)
      else if (holder !== undefined && api.source === STORE && (holder.source === STORE || givesWay)) {
        // Two processes were given them in the same moment: no reason not to start.
        log.error('API left out: its listen path is taken', { api_id: api.id, holder: holder.id })
      } else if (holder !== undefined) faults.push(taken(api, holder, source => source))
      else {
        next.set(api.id, now)
        if (place !== null) places.set(place, api)
      }
    }
    const bySource = new Map([...state.values()].map(before => [before.api.source, before]))
    for (const file of await filesOf(files, folder, faults)) {
      const now = await readApiFile(files, file, faults, given => ofFile(file, given, bySource.get(file)))
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

  function ofFile(source: string, { stamp, updated, document }: ApiFile, before: Kept | undefined): Kept {
    if (before?.stamp === stamp) return before
    const api = readApi(unescapeDots(document()), { source, matching })
    return kept(api, { created: null, updated, rev: 0, sequence: 0, stamp })
  }

  /** The one that a write is about; it must lie in the store. */
  function writable(id: string): Kept {
    const present = state.get(id)
    if (present === undefined) throw new ApiRefused('unknown', 'API not found')
    const { source } = present.api
    if (source !== STORE)
      throw new ApiRefused('file', `API ${id} is read from ${basename(source)} and cannot be changed here`)
    return present
  }

  const stop = changes.listen(list => {
    if (list === null) return applying(refreshAll)
    const ids = list.filter(({ kind }) => kind === 'api').map(({ id }) => id)
    return ids.length === 0 ? undefined : applying(() => refresh(ids))
  })

  const alone: ApiCommit = ({ write, claims }) => store.commit([write, ...claims])

  const claims = listenPaths(store, matching)

  return {
    get: id => state.get(id)?.api ?? null,
    find: id => (state.get(id) ?? state.get(byDbId.get(id) ?? ''))?.api ?? null,
    revision: id => state.get(id)?.rev ?? 0,
    all() {
      sorted ??= [...state.values()].map(({ api }) => api).sort((a, b) => (a.id < b.id ? -1 : 1))
      return sorted
    },
    rows() {
      rows ??= [...state.values()]
      return rows
    },
    load: (files = disk) =>
      writing(() =>
        applying(async () => {
          const faults: string[] = []
          const next = await readAll(files, faults)
          if (faults.length === 0) await swap(next)
          return faults
        })
      ),
    reread: id => applying(() => refresh([id])),
    save: (document, replaces, { commit = alone, at, escapeDots = false } = {}) =>
      writing(async () => {
        const before = replaces === null ? null : writable(replaces)
        const body = unescapeDots(withId(document, replaces ?? newId(random)))
        if (replaces !== null && (namedId(body) ?? replaces) !== replaces) throw new ApiRefused('other id', OTHER_ID)
        const api = readApi(body, { source: STORE, matching })
        if (before === null && state.has(api.id)) throw new ApiRefused('id taken', `API id ${api.id} is taken`)
        // An id that leads to another API by its database id would hide that one from its owners.
        for (const name of [api.id, api.dbId]) {
          const known = byDbId.get(name) ?? (name === api.dbId && state.has(name) ? name : undefined)
          if (known !== undefined && known !== (replaces ?? api.id))
            throw new ApiRefused('id taken', `API id ${name} is taken`)
        }
        const place = placeOf(api)
        const holder = holderOf({ api, place })
        if (holder !== null) throw new ApiRefused('path taken', taken(api, holder, basename), holder)
        const { id, orgId } = api
        const expect = before?.rev ?? 0
        const rev = expect + 1
        const updated = at ?? null
        const created = before === null ? updated : before.created
        const form = { escapeDots }
        const claimed = await claims.moved(api, before?.place ?? null, place)
        const what: ApiWrite = {
          write: { kind: 'api', id, org: orgId, body: toStored({ document: body, created, updated }, form), expect },
          claims: claimed,
          rev,
          before: before?.api ?? null,
          after: api,
          stored: toStored({ document: body, created: null, updated: null }, form)
        }
        const sequence = await claims.committed(api, () => commit(what))
        written.set(id, { api, rev, sequence, created, updated, place, stamp: stampOf({ rev, sequence }) })
        try {
          await changes.publish([{ sequence, kind: 'api', id, deleted: false }])
        } finally {
          written.delete(id)
        }
        return api
      }),
    remove: (id, commit = alone) =>
      writing(async () => {
        const { api, rev, place } = writable(id)
        const write = { kind: 'api', id, body: null, expect: rev } as const
        const claimed = await claims.moved(api, place, null)
        const sequence = await commit({ write, claims: claimed, rev, before: api, after: null, stored: null })
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

function kept(api: Api, given: Omit<Kept, 'api' | 'place'>): Kept {
  return { ...given, api, place: placeOf(api) }
}

function stampOf({ rev, sequence }: Pick<Document, 'rev' | 'sequence'>): string {
  return `${rev}.${sequence}`
}

/** @param shown a file as the reader of the text may know it */
function taken(api: Api, holder: Api, shown: (source: string) => string): string {
  const named = ({ id, name, source }: Api) =>
    source === STORE ? `${id} (${name})` : `${id} (${name}, ${shown(source)})`
  const where = api.domain === '' ? '' : ` on ${api.domain}`
  return `The listen path ${api.listenPath}/${where} of API ${named(api)} is taken by API ${named(holder)}`
}

/** A UUID (version 4) without dashes. */
function newId(random: Random): string {
  const bytes = random.bytes(16)
  bytes[6] = (bytes[6]! & 0x0f) | 0x40
  bytes[8] = (bytes[8]! & 0x3f) | 0x80
  return bytes.toString('hex')
}
