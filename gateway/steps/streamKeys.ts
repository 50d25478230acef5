import { setImmediate as nextTurn } from 'node:timers/promises'
import type { Clock } from '../../config/world.ts'
import type { Call } from '../../streams/call.ts'
import type { Streams } from '../../streams/streams.ts'
import { anyId, type Changes } from '../changes/changes.ts'
import type { Keys, Session } from '../keys/keys.ts'
import type { Policies } from '../keys/policies.ts'
import { Unavailable } from '../store/store.ts'
import { StreamCall } from './streamCall.ts'

export interface StreamKeysTools {
  readonly streams: Streams
  readonly keys: Pick<Keys, 'again'>
  readonly policies: Pick<Policies, 'epoch'>
  readonly changes: Pick<Changes, 'listen'>
  readonly clock: Clock
}

/** A key that is revoked, has expired or was changed ends its connections within a second (outside.md §5): looked at this often. */
const SWEEP_MS = 250
/** Connections looked at before others get their turn. */
const SLICE = 500

/** Holds the keys of long connections against what is written meanwhile. The answer ends it. */
export function streamKeys({ streams, keys, policies, changes, clock }: StreamKeysTools): () => void {
  /** Keys that were written since the last look; null: any may have changed. */
  let written: Set<string> | null = new Set()
  let epoch = policies.epoch
  let cancel = clock.after(SWEEP_MS, sweep)
  let isOver = false
  const stop = changes.listen(all => {
    if (all === null) written = null
    for (const { kind, id } of all ?? []) {
      if (kind === 'policy' || id === anyId) written = null
      else if (kind === 'key') written?.add(id)
    }
  })

  function sweep(): void {
    void look().then(() => {
      if (!isOver) cancel = clock.after(SWEEP_MS, sweep)
    })
  }

  async function look(): Promise<void> {
    const isAny = written === null || epoch !== policies.epoch
    const those = written ?? new Set()
    written = new Set()
    epoch = policies.epoch
    const ended = new Set<Call>()
    const now = clock.now()
    let looked = 0
    for (const call of [...streams.calls()]) {
      if (!(call instanceof StreamCall) || call.x.key === null) continue
      const { key } = call.x
      if (now >= Math.min(key.expiresMs, key.goneMs, call.x.validUntil)) ended.add(call)
      else if ((isAny || those.has(key.hash)) && (await isChanged(key, those.has(key.hash)))) ended.add(call)
      if (++looked % SLICE === 0) await nextTurn()
    }
    if (ended.size > 0) streams.end(call => ended.has(call), 'key')
  }

  /** @param isWritten its document was; the session of a caller whose token was just seen may not be kept yet */
  async function isChanged(key: Session, isWritten: boolean): Promise<boolean> {
    try {
      const now = await keys.again(key)
      if (now === null && key.proof === 'identity') return isWritten
      return now === null || now.inactive || (now !== key && whatCounts(now) !== whatCounts(key))
    } catch (cause) {
      if (!(cause instanceof Unavailable)) throw cause
      // Nobody can say now: the next look will.
      written?.add(key.hash)
      return false
    }
  }

  /** A newer token of a caller prolongs its session and changes nothing of what it may do. */
  function whatCounts({ key, proof }: Session): string {
    if (proof !== 'identity') return JSON.stringify(key)
    return JSON.stringify({ ...key, expires: 0, last_updated: '', session_lifetime: 0 })
  }

  return () => {
    isOver = true
    stop()
    cancel()
  }
}
