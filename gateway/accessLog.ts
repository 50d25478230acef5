import { closeSync, constants, openSync } from 'node:fs'
import { type Lines, linesTo, toFile } from '../config/lines.ts'
import type { Clock, Log } from '../config/world.ts'
import type { Exchange } from './exchange.ts'
import type { Refusal } from './refusals.ts'

/** How long lines are collected, and how much of them, before they are written. */
const FLUSH_MS = 100
const FLUSH_CHARS = 65_536
/** A reader that takes nothing holds up the end no longer than this. */
const CLOSE_MS = 1_000

export interface AccessLog {
  line(x: Exchange): void
  /** For bytes of a client that were no request: nothing of them is known but who sent them. */
  refused(client: string, refusal: Refusal): void
  /** Whole lines that another thread made. */
  text(lines: string): void
  /** Opens the file anew, for log rotation. Answers why it could not; then the old file is kept. */
  reopen(): string | null
  close(): Promise<void>
}

/**
 * One JSON line a request, batched. `path` '': to `output`, which others write to as well.
 * @throws Error in one line when the file cannot be opened
 */
export function accessLog(path: string, output: Lines, clock: Clock, log: Log): AccessLog {
  let file = path === '' ? -1 : open(path)
  const lines =
    path === ''
      ? output
      : linesTo(
          toFile(() => file),
          cause => log.error('access log', { path, cause })
        )
  let last = 0
  let second = ''
  let cancel: () => void = () => {}
  const tick = () => {
    lines.flush()
    cancel = clock.after(FLUSH_MS, tick)
  }
  tick()

  /** ISO 8601 UTC; the second is made once, milliseconds are put behind. */
  function time(at: number): string {
    const whole = at - (at % 1000)
    if (whole !== last) {
      last = whole
      second = new Date(whole).toISOString().slice(0, 20)
    }
    const ms = at - whole
    return `${second + (ms < 10 ? '00' : ms < 100 ? '0' : '') + ms}Z`
  }

  return {
    line(x) {
      const now = clock.now()
      const total = now - x.at
      // One that never answered took all the time since it was asked.
      const upstream = x.upstreamMs < 0 && x.sentAt > 0 ? now - x.sentAt : Math.max(0, x.upstreamMs)
      const api = x.route.api
      const status = x.res.headersSent || x.upgrade !== null ? x.res.statusCode : 499
      lines.write(
        `{"level":"info","time":"${time(x.at)}","msg":"access","api_id":${quoted(api.id)},"api_name":${quoted(api.name)},"org_id":${quoted(api.orgId)},"key":"${x.key === null ? '' : x.key.hash}","client":"${x.client}","method":"${x.method}","host":${quoted(x.host)},"path":${quoted(x.path)},"status":${status},"bytes":${x.bytes},"total_ms":${total},"gateway_ms":${Math.max(0, total - upstream)},"upstream_ms":${upstream},"refusal":"${x.refusal === null ? '' : x.refusal.code}"}\n`
      )
      if (lines.waiting >= FLUSH_CHARS) lines.flush()
    },
    refused(client, { status, code, json }) {
      lines.write(
        `{"level":"info","time":"${time(clock.now())}","msg":"access","api_id":"","api_name":"","org_id":"","key":"","client":"${client}","method":"","host":"","path":"","status":${status},"bytes":${json.length},"total_ms":0,"gateway_ms":0,"upstream_ms":0,"refusal":"${code}"}\n`
      )
      if (lines.waiting >= FLUSH_CHARS) lines.flush()
    },
    text(ready) {
      lines.write(ready)
      if (lines.waiting >= FLUSH_CHARS) lines.flush()
    },
    reopen() {
      if (path === '') return null
      try {
        const old = file
        file = open(path)
        void lines.settled().then(() => closeSync(old))
        return null
      } catch (cause) {
        return (cause as Error).message
      }
    },
    async close() {
      cancel()
      await lines.settled(CLOSE_MS)
      if (path !== '') closeSync(file)
    }
  }
}

function open(path: string): number {
  const { O_WRONLY, O_APPEND, O_CREAT, O_NONBLOCK } = constants
  try {
    // Without O_NONBLOCK a FIFO that nobody reads would stop the process.
    return openSync(path, O_WRONLY | O_APPEND | O_CREAT | O_NONBLOCK, 0o640)
  } catch (cause) {
    throw new Error(`the access log ${path} cannot be opened: ${(cause as Error).message}`, { cause })
  }
}

// What JSON cannot hold as it is; the common texts have none of it.
const UNQUOTABLE = /[^\x20\x21\x23-\x5b\x5d-\x7e]/

function quoted(text: string): string {
  return UNQUOTABLE.test(text) ? JSON.stringify(text) : `"${text}"`
}
