import { isObject } from '../config/report.ts'
import { Invalid } from '../config/validate.ts'
import { EXTENSION } from '../gateway/api.ts'
import { type Api, ApiRefused } from '../gateway/apis.ts'
import { Conflict, type Revision } from '../gateway/store/store.ts'
import { STREAMING } from '../streams/document/readStreaming.ts'
import { type Caller, owns } from './caller.ts'
import { type Call, Refused, toldFaults } from './endpoint.ts'
import { newId } from './ids.ts'
import { revisionDeletions, revisionWrites } from './revisions.ts'
import type { ControlTools } from './tools.ts'
import { tried } from './tries.ts'

/** Writing APIs, whoever asks: with the caller's organisation, a database id, revisions and the audit record in one commit. */

type Asked = Pick<Call<unknown, unknown, unknown>, 'caller' | 'matched' | 'changed'>

export interface Saved {
  readonly api: Api
  readonly rev: Revision
}

/** An API that the caller may see, by its id or its database id; null: none. */
export function ownApi(
  id: string,
  { caller }: Pick<Asked, 'caller'>,
  { apis }: Pick<ControlTools, 'apis'>
): Api | null {
  const api = apis.find(id)
  return api !== null && owns(caller, api.orgId) ? api : null
}

/**
 * @param replaces the API whose place the document takes; null: it is new
 * @param summary what stands in the list of revisions
 * @throws Refused
 */
export function saveApi(
  document: unknown,
  replaces: Api | null,
  summary: string,
  asked: Asked,
  tools: ControlTools
): Promise<Saved> {
  return toldClearly(asked.caller, () => anew(tools, () => keep(document, replaces, summary, asked, tools)))
}

/**
 * Changes an API from what it is now, whoever else changes it.
 * @param make the document as it should be
 * @throws Refused
 */
export function changeApi(
  id: string,
  make: (present: Api) => unknown,
  summary: string,
  asked: Asked,
  tools: ControlTools
): Promise<Saved> {
  const { apis } = tools
  const attempt = async () => {
    const present = apis.get(id)
    if (present === null) throw new ApiRefused('unknown', 'API not found')
    const seen = apis.revision(id)
    const matched = (rev: Revision) => {
      if (rev !== seen) throw new Conflict('api', id)
      return asked.matched(rev)
    }
    return keep(make(present), present, summary, { ...asked, matched }, tools)
  }
  return toldClearly(asked.caller, () => anew(tools, attempt))
}

/** Another process may have been faster, and its news not here yet: begins again with what the store says. */
function anew<T>({ apis }: Pick<ControlTools, 'apis'>, write: () => Promise<T>): Promise<T> {
  return tried('API', async () => {
    try {
      return await write()
    } catch (cause) {
      if (cause instanceof Conflict && cause.kind === 'api') await apis.reread(cause.id)
      throw cause
    }
  })
}

async function keep(
  document: unknown,
  replaces: Api | null,
  summary: string,
  asked: Asked,
  tools: ControlTools
): Promise<Saved> {
  const { caller, matched, changed } = asked
  const { store, clock, apis, settings } = tools
  const given = owned(document, replaces, asked, tools)
  if (isStreaming(given)) allowsStreaming(tools)
  const at = clock.now()
  let saved: Revision = 0
  const api = await apis.save(given, replaces?.id ?? null, {
    at,
    escapeDots: settings.management.escape_dots_in_oas_paths,
    commit({ write, claims, rev, before, after, stored }) {
      if (before !== null) {
        matched(rev - 1)
        changed(before.document, after!.document)
      }
      saved = rev
      const written = { id: write.id, org: after!.orgId, body: stored }
      return store.commit([write, ...claims, ...revisionWrites('api', written, rev, { at, caller, summary })])
    }
  })
  return { api, rev: saved }
}

/** @throws Refused */
export async function removeApi(api: Api, { caller, matched }: Asked, tools: ControlTools): Promise<void> {
  const { store, apis } = tools
  const remove = () =>
    apis.remove(api.id, ({ write, claims, rev }) => {
      matched(rev)
      return store.commit([write, ...claims, ...revisionDeletions('api', api.id, rev)])
    })
  await toldClearly(caller, () => anew(tools, remove))
}

/** Whether a document describes a streaming API. */
export function isStreaming(document: unknown): boolean {
  return isObject(document) && Object.hasOwn(document, STREAMING)
}

/** @throws Refused 403 while streaming is off */
function allowsStreaming({ settings }: Pick<ControlTools, 'settings'>): void {
  const off = (['gateway', 'management'] as const).filter(section => !settings[section].streaming.enabled)
  if (off.length === 0) return
  const options = off.map(section => `${section}.streaming.enabled`).join(' and ')
  throw new Refused(403, `Streaming is switched off: ${options} must be true`)
}

/**
 * The document with its organisation and database id. The gateway interface, which is bound to no organisation, keeps a
 * new document as it was given.
 * @throws Refused 403 for another organisation
 */
function owned(document: unknown, replaces: Api | null, { caller }: Asked, tools: ControlTools): unknown {
  if (!isObject(document) || !isObject(document[EXTENSION])) return document
  const extension = document[EXTENSION]
  if (!isObject(extension.info)) return document
  const { info } = extension
  // What is no text is told as a fault of the document.
  if (info.orgId !== undefined && typeof info.orgId !== 'string') return document
  const orgId = info.orgId || (replaces?.orgId ?? caller.org ?? 'default')
  if (!owns(caller, orgId)) throw new Refused(403, 'access denied: the API belongs to another organisation')
  const own: { dbId?: string; orgId?: string } = {}
  if (caller.org !== null || replaces?.dbId) own.dbId = replaces?.dbId || newId(tools)
  if (caller.org !== null || orgId !== 'default') own.orgId = orgId
  if (Object.entries(own).every(([name, value]) => info[name] === value)) return document
  return { ...document, [EXTENSION]: { ...extension, info: { ...info, ...own } } }
}

const STATUS = { unknown: 404, 'other id': 400, 'id taken': 409, 'path taken': 409, file: 409 } as const

/** @throws Refused in the words of the interface */
async function toldClearly<T>(caller: Caller, write: () => Promise<T>): Promise<T> {
  try {
    return await write()
  } catch (cause) {
    if (cause instanceof ApiRefused) throw new Refused(STATUS[cause.reason], textOf(cause, caller))
    if (cause instanceof Conflict) throw new Refused(409, 'The API was changed meanwhile; read it again')
    if (!(cause instanceof Invalid)) throw cause
    throw new Refused(400, cause.message.slice(0, 2000), { more: { faults: toldFaults(cause.faults) } })
  }
}

/** Semantics §1.16, §2.5; of an API of another organisation nothing is told but that it is there. */
function textOf({ reason, message, holder }: ApiRefused, caller: Caller): string {
  if (reason === 'id taken') return 'Found API with the same ID'
  if (reason !== 'path taken') return message
  const mayKnow = holder !== null && owns(caller, holder.orgId)
  return `Found API with same url. ${mayKnow ? message : 'Its listen path is taken by an API of another organisation'}`
}
