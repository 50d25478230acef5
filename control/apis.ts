import { Invalid } from '../config/validate.ts'
import { EXTENSION } from '../gateway/api.ts'
import { type Api, type ApiCommit, ApiRefused } from '../gateway/apis.ts'
import { isObject } from '../gateway/documents/report.ts'
import { Conflict, type Revision } from '../gateway/store/store.ts'
import { owns } from './caller.ts'
import { type Call, Refused, toldFaults } from './endpoint.ts'
import { newId } from './ids.ts'
import { revisionDeletions, revisionWrites } from './revisions.ts'
import type { ControlTools } from './tools.ts'

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
export async function saveApi(
  document: unknown,
  replaces: Api | null,
  summary: string,
  asked: Asked,
  tools: ControlTools
): Promise<Saved> {
  const { caller, matched, changed } = asked
  const { store, clock, apis } = tools
  let saved: Revision = 0
  const commit: ApiCommit = (write, rev) => {
    if (write.body === null) throw new TypeError('a deletion')
    if (replaces !== null) matched(rev - 1)
    saved = rev
    if (replaces !== null) changed(replaces.document, write.body)
    return store.commit([write, ...revisionWrites('api', write, rev, { at: clock.now(), caller, summary })])
  }
  const api = await toldClearly(() => apis.save(owned(document, replaces, asked, tools), replaces?.id ?? null, commit))
  return { api, rev: saved }
}

/** @throws Refused */
export async function removeApi(api: Api, { caller, matched }: Asked, { store, apis }: ControlTools): Promise<void> {
  void caller
  await toldClearly(() =>
    apis.remove(api.id, (write, rev) => {
      matched(rev)
      return store.commit([write, ...revisionDeletions('api', api.id, rev)])
    })
  )
}

/** The document with the organisation of its caller and a database id. @throws Refused 403 for another organisation */
function owned(document: unknown, replaces: Api | null, { caller }: Asked, tools: ControlTools): unknown {
  if (!isObject(document) || !isObject(document[EXTENSION])) return document
  const extension = document[EXTENSION]
  if (!isObject(extension.info)) return document
  const { info } = extension
  const named = typeof info.orgId === 'string' && info.orgId !== '' ? info.orgId : null
  const orgId = named ?? replaces?.orgId ?? caller.org ?? 'default'
  if (!owns(caller, orgId)) throw new Refused(403, 'access denied: the API belongs to another organisation')
  const dbId = replaces?.dbId || newId(tools)
  if (info.orgId === orgId && info.dbId === dbId) return document
  return { ...document, [EXTENSION]: { ...extension, info: { ...info, dbId, orgId } } }
}

const STATUS = { unknown: 404, 'other id': 400, 'id taken': 409, 'path taken': 409, file: 409 } as const

/** @throws Refused in the words of the interface */
export async function toldClearly<T>(write: () => Promise<T>): Promise<T> {
  try {
    return await write()
  } catch (cause) {
    if (cause instanceof ApiRefused) throw new Refused(STATUS[cause.reason], cause.message)
    if (cause instanceof Conflict) throw new Refused(409, 'The API was changed meanwhile; read it again')
    if (!(cause instanceof Invalid)) throw cause
    throw new Refused(400, cause.message.slice(0, 2000), { more: { faults: toldFaults(cause.faults) } })
  }
}
