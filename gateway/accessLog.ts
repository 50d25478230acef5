import { closeSync, openSync, write } from 'node:fs'
import type { Clock, Log } from '../config/world.ts'
import type { Exchange } from './exchange.ts'

/** How long lines are collected, and how much of them, before they are written. */
const FLUSH_MS = 100
const FLUSH_CHARS = 65_536
/** Lines wait at most this long in characters; beyond, they are dropped and counted, never held without bound. */
const MOST_WAITING = 16 * 1024 * 1024

export interface AccessLog {
  line(x: Exchange): void
  /** Opens the file anew, for log rotation. */
  reopen(): void
  close(): Promise<void>
}

/** One JSON line a request, batched. `path` '': standard output. */
export function accessLog(path: string, clock: Clock, log: Log): AccessLog {
  let file = path === '' ? 1 : openSync(path, 'a', 0o640)
  let waiting = ''
  let writing = false
  let dropped = 0
  let last = 0
  let second = ''
  let flushed: () => void = () => {}
  let cancel: () => void = () => {}
  const tick = () => {
    flush()
    cancel = clock.after(FLUSH_MS, tick)
  }
  cancel = clock.after(FLUSH_MS, tick)

  function flush(): void {
    if (writing || waiting === '') return
    writing = true
    const batch = Buffer.from(waiting)
    waiting = ''
    rest(batch)
  }

  function rest(batch: Buffer): void {
    write(file, batch, 0, batch.length, null, (error, count) => {
      if (error !== null && error.code === 'EAGAIN') return void setTimeout(rest, 10, batch)
      if (error !== null) log.error('the access log cannot be written', { cause: error.message })
      else if (count < batch.length) return rest(batch.subarray(count))
      writing = false
      if (dropped > 0 && waiting.length < MOST_WAITING) {
        log.warn('access log lines were dropped', { lines: dropped })
        dropped = 0
      }
      flushed()
    })
  }

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
      if (waiting.length > MOST_WAITING) {
        dropped++
        return
      }
      const total = clock.now() - x.at
      const upstream = Math.max(0, x.upstreamMs)
      const api = x.route.api
      const status = x.res.headersSent || x.upgrade !== null ? x.res.statusCode : 499
      waiting += `{"level":"info","time":"${time(x.at)}","msg":"access","api_id":${quoted(api.id)},"api_name":${quoted(api.name)},"org_id":${quoted(api.orgId)},"key":"${x.key === null ? '' : x.key.hash}","client":"${x.client}","method":"${x.method}","host":${quoted(x.host)},"path":${quoted(x.path)},"status":${status},"bytes":${x.bytes},"total_ms":${total},"gateway_ms":${Math.max(0, total - upstream)},"upstream_ms":${upstream},"refusal":"${x.refusal === null ? '' : x.refusal.code}"}\n`
      if (waiting.length >= FLUSH_CHARS) flush()
    },
    reopen() {
      if (path === '') return
      const old = file
      file = openSync(path, 'a', 0o640)
      if (writing) flushed = () => closeSync(old)
      else closeSync(old)
    },
    async close() {
      cancel()
      while (writing || waiting !== '') {
        const done = new Promise<void>(resolve => (flushed = resolve))
        flush()
        await done
      }
      if (path !== '') closeSync(file)
    }
  }
}

// What JSON cannot hold as it is; the common texts have none of it.
const UNQUOTABLE = /[^\x20\x21\x23-\x5b\x5d-\x7e]/

function quoted(text: string): string {
  return UNQUOTABLE.test(text) ? JSON.stringify(text) : `"${text}"`
}
