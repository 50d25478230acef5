import { closeSync, openSync } from 'node:fs'
import { appendFile } from 'node:fs/promises'
import type { Settings } from '../config/settings.ts'
import type { Clock, Log } from '../config/world.ts'
import { type Store, Unavailable, type Write } from '../gateway/store/store.ts'

/** Body of a stored `audit` document; its id is `_id`. */
export interface AuditRecord {
  readonly _id: string
  readonly req_id: string
  readonly org_id: string
  /** RFC 1123. */
  readonly date: string
  /** ISO 8601. */
  readonly timestamp: string
  readonly ip: string
  readonly user: string
  /** What the endpoint does, in words. */
  readonly action: string
  readonly method: string
  /** Path and query, secrets masked. */
  readonly url: string
  readonly status: number
  /** Of updates: JSON Patch (RFC 6902), secrets masked. */
  readonly diff?: readonly unknown[]
  /** With `audit.detailed_recording`: the bodies, secrets masked. */
  readonly request_dump?: string
  readonly response_dump?: string
}

/** Where audit records go, and how long the store keeps them (`management.audit`). */
export interface AuditTrail {
  /** `store`: records are committed with what they tell of; `file`: `append` writes them. */
  readonly place: 'store' | 'file'
  readonly detailed: boolean
  append(record: AuditRecord): Promise<void>
  close(): Promise<void>
}

/** How often records that are too old are looked for. */
const SWEEP_MS = 3_600_000
/** Records deleted in one commit. */
const AT_ONCE = 500
const DAY_MS = 86_400_000

/** Null: no records are made. @throws Error in one line when the file cannot be written */
export function auditTrail(
  { management }: Pick<Settings, 'management'>,
  { store, clock, log }: { store: Store; clock: Clock; log: Log }
): AuditTrail | null {
  const { enabled, store_type, path, format, detailed_recording, retention_days } = management.audit
  if (!enabled) return null
  let closed = false
  let sweeping: Promise<void> = Promise.resolve()
  let cancel = () => {}

  const sweep = async () => {
    try {
      await forgetBefore(clock.now() - retention_days * DAY_MS, store, () => closed)
    } catch (cause) {
      log.warn('old audit records stay for now', { cause: String(cause) })
    }
    if (!closed) plan(SWEEP_MS)
  }
  const plan = (ms: number) => {
    cancel = clock.after(ms, () => {
      sweeping = sweep()
    })
  }
  if (store_type === 'db') plan(1_000)
  else if (!writable(path)) throw new Error(`the audit file ${path} cannot be written`)

  return {
    place: store_type === 'db' ? 'store' : 'file',
    detailed: detailed_recording,
    async append(record) {
      const line = format === 'json' ? `${JSON.stringify(record)}\n` : textLine(record)
      try {
        await appendFile(path, line, { mode: 0o600 })
      } catch (cause) {
        log.error('the audit file cannot be written', { path, cause: String(cause) })
        throw new Unavailable('the audit file cannot be written')
      }
    },
    async close() {
      closed = true
      cancel()
      await sweeping
    }
  }
}

function writable(path: string): boolean {
  try {
    closeSync(openSync(path, 'a', 0o600))
    return true
  } catch {
    return false
  }
}

/** Records lie in the order of their making: the first that is young enough ends the walk. */
async function forgetBefore(time: number, store: Store, stopped: () => boolean): Promise<void> {
  const oldest = new Date(time).toISOString()
  let writes: Write[] = []
  for await (const documents of store.each<AuditRecord>('audit', {})) {
    const old = documents.filter(({ body }) => body.timestamp < oldest)
    writes.push(...old.map(({ id }) => ({ kind: 'audit', id, body: null }) as const))
    const last = old.length < documents.length
    if (writes.length >= AT_ONCE || (last && writes.length > 0)) {
      await store.commit(writes)
      writes = []
    }
    if (last || stopped()) return
  }
  if (writes.length > 0) await store.commit(writes)
}

/** `date user ip "method url" status "action"`; what could break the line is escaped. */
function textLine({ date, user, ip, method, url, status, action }: AuditRecord): string {
  return `${date} ${JSON.stringify(user)} ${ip} ${JSON.stringify(`${method} ${url}`)} ${status} ${JSON.stringify(action)}\n`
}
