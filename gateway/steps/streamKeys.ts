import { setImmediate as nextTurn } from 'node:timers/promises'
import type { Clock } from '../../config/world.ts'
import type { Call } from '../../streams/call.ts'
import type { Streams } from '../../streams/streams.ts'
import { standingOf } from '../authentication/openIdentities.ts'
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
  /** Keys that were written since the last look. */
  let written = new Set<string>()
  /** Any may have changed, or its policies have. */
  let mayBeAny = false
  let epoch = policies.epoch
  let cancel = clock.after(SWEEP_MS, sweep)
  let isOver = false
  const stop = changes.listen(all => {
    if (all === null) mayBeAny = true
    for (const { kind, id } of all ?? []) {
      if (kind === 'policy' || id === anyId) mayBeAny = true
      else if (kind === 'key') written.add(id)
    }
  })

  function sweep(): void {
    void look().then(() => {
      if (!isOver) cancel = clock.after(SWEEP_MS, sweep)
    })
  }

  async function look(): Promise<void> {
    const isAny = mayBeAny || epoch !== policies.epoch
    const those = written
    mayBeAny = false
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

  /**
   * @param isWritten its document was; the session of a caller whose token was just seen may not be kept yet. Tokens of one
   * caller do not end each other's connections: each goes on with what its own has brought.
   */
  async function isChanged(key: Session, isWritten: boolean): Promise<boolean> {
    try {
      const standing = await standingOf(key)
      if (standing !== null) return !standing.isSame || (!standing.isKept && (isWritten || key.proof !== 'identity'))
      const now = await keys.again(key)
      return now === null || now.inactive || (now !== key && JSON.stringify(now.key) !== JSON.stringify(key.key))
    } catch (cause) {
      if (!(cause instanceof Unavailable)) throw cause
      // Nobody can say now: the next look will.
      if (isWritten) written.add(key.hash)
      else mayBeAny = true
      return false
    }
  }

  return () => {
    isOver = true
    stop()
    cancel()
  }
}
