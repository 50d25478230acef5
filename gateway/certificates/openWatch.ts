import type { Log } from '../../config/world.ts'
import { Recent } from '../keys/recent.ts'
import { Unavailable } from '../store/store.ts'
import { isFile } from './certificates.ts'
import { Notices, type NoticesGiven, nameOf, noticeId, type Subject } from './notices.ts'
import { fingerprintOf } from './presented.ts'
import type { CertificateWatch } from './watch.ts'

export interface WatchGiven extends NoticesGiven {
  readonly log: Log
}

/** Certificates that were looked at within the check cool-down, remembered at most. */
const REMEMBERED = 10_000
/** Certificates whose end is to be told, at most; one beyond is looked at anew when it is used again. */
const MOST_WAITING = 1_000
/** While the store is away, it is asked again so often. */
const AGAIN_MS = 5_000
/** Length of a fingerprint: an id of an upstream's own certificate, which no store gave. */
const BARE = 64

/** Looks at certificates that requests use. Those that only lie in the store are the sweep's (`sweep.ts`). */
export function openWatch(given: WatchGiven): CertificateWatch {
  const { settings, clock, log } = given
  const checkMs = settings.security.certificate_expiry_monitor.check_cooldown_seconds * 1000
  const notices = new Notices(given)
  /** Until when not to look again. */
  const seen = new Recent<number>(REMEMBERED)
  const waiting = new Map<string, Subject>()
  let telling: Promise<void> | null = null
  let cancel: (() => void) | null = null
  let isOver = false

  /** One after the other: a flood of certificates that end is no flood for the store. */
  async function tellWaiting(): Promise<void> {
    for (const [place, subject] of waiting) {
      if (isOver) return
      try {
        await notices.tell(subject)
      } catch (cause) {
        if (cause instanceof Unavailable) {
          if (!isOver) cancel = clock.after(AGAIN_MS, start)
          return
        }
        log.error('the end of a certificate could not be told', { certificate: subject.id, cause: String(cause) })
      }
      waiting.delete(place)
    }
  }

  function start(): void {
    cancel = null
    telling = tellWaiting().finally(() => {
      telling = null
      if (waiting.size > 0 && cancel === null && !isOver) start()
    })
  }

  return {
    used({ id, leaf, role, apiId, org }) {
      const place = id.length === BARE && !isFile(id) ? org + id : id
      const now = clock.now()
      const until = seen.get(place)
      if (until !== undefined && now < until) return
      seen.set(place, now + checkMs)
      const expiresMs = leaf.validToDate.getTime()
      if (notices.ending(expiresMs) === null) return
      const owner = isFile(id) ? '' : org
      const fingerprint = fingerprintOf(leaf)
      const notice = noticeId(owner, fingerprint)
      if (waiting.size >= MOST_WAITING && !waiting.has(notice)) {
        seen.delete(place)
        return
      }
      const name = nameOf(leaf, fingerprint)
      waiting.set(notice, { id: place, org: owner, fingerprint, name, expiresMs, role, apiId })
      if (telling === null && cancel === null) start()
    },
    async close() {
      isOver = true
      cancel?.()
      await telling
    }
  }
}
