import type { GatewaySettings } from '../../../config/settings.ts'
import type { Clock, Log } from '../../../config/world.ts'
import type { Charge, Counters } from '../counters.ts'
import type { CountersMemory } from '../countersMemory.ts'
import type { Remote } from '../remote.ts'
import { Asking } from './asking.ts'
import { Breaker } from './breaker.ts'
import { Deadlines, Decision } from './decisions.ts'
import { type KeptQuotas, Learning } from './learning.ts'
import { Leases } from './leases.ts'
import { Moments } from './moments.ts'
import { Outage } from './outage.ts'
import { Quotas } from './quotas.ts'
import { Refusals } from './refusals.ts'

export type { KeptQuotas } from './learning.ts'

export interface CountersSharedGiven {
  readonly remote: Remote
  /** Counts while Redis is away. */
  readonly local: CountersMemory
  readonly clock: Clock
  readonly log: Log
  readonly settings: Pick<GatewaySettings, 'counters_timeout_ms' | 'counters_failure'>
  /** Told at once: why counters are not shared at the moment, or null. */
  readonly status: (failure: string | null) => void
  readonly kept?: KeptQuotas
}

export interface CountersShared extends Counters {
  /** Gives back what was taken and not spent. What Redis never heard of is in the next `dump`. */
  close(): Promise<void>
}

/** What is told to Redis again, or added, in one call. */
const BATCH = 1_000
/** Ids that wait to be forgotten; then the oldest is let go. */
const MOST_FORGOTTEN = 100_000
/** A management call waits no longer for it. */
const FORGET_MS = 250

/** What is known of quotas is of use: under `refuse` nothing passes. */
function isCounting(limits: readonly Charge[]): boolean {
  return limits.length > 0 && limits[0]!.onFailure !== 'refuse'
}

/**
 * Counters that lie outside of the process, as its requests see them: asked within `counters_timeout_ms` or not at all, not
 * asked where a remembered refusal or a lease tells, and with a rule for when they do not answer (docs/limits.md).
 */
export function countersShared(given: CountersSharedGiven): CountersShared {
  const { remote, local, clock, log, settings, status, kept } = given
  const budgetMs = settings.counters_timeout_ms
  const unforgotten = new Set<string>()
  /** Forgotten there just now by this process, which has long counted anew: that it will be told of them is no news. */
  const echoes = new Set<string>()
  const returning = new Set<Promise<void>>()
  /** Calls that wait for counters to be forgotten there. */
  const releases = new Set<() => void>()
  let recovering: Promise<void> | null = null
  let isClosed = false

  const moments = new Moments(clock, () => {
    refusals.forget(null)
    leases.returnAll()
  })
  const refusals = new Refusals(moments)
  const quotas = new Quotas()
  const learning = new Learning({ kept, quotas, moments, budgetMs })
  const leases = new Leases(moments, (limit, units, at) => {
    if (breaker.isOpen) return
    const back: Promise<void> = remote.giveBack(limit, units, at).catch(() => {})
    returning.add(back)
    void back.then(() => returning.delete(back))
  })
  const outage = new Outage({ local, quotas, refusals, moments, processes: () => breaker.processes })
  const deadlines = new Deadlines(clock, budgetMs, decision => {
    breaker.overdue()
    if (!decision.settled) without(decision)
  })
  const breaker = new Breaker({
    remote,
    clock,
    log,
    budgetMs,
    policy: settings.counters_failure,
    status,
    onOpen: opened,
    recover,
    onSecond() {
      leases.sweep(moments.now())
      if (!quotas.isAdded || unforgotten.size > 0) void recover().catch(() => {})
    }
  })
  const asking = new Asking({ remote, leases, refusals, quotas, moments, breaker })
  remote.onForgotten(ids => {
    refusals.forget(ids)
    leases.forget(ids)
    if (ids === null) echoes.clear()
    else forgetHere(ids.filter(id => !echoes.delete(id)))
  })
  breaker.start()

  function without(decision: Decision): void {
    if (isCounting(decision.limits)) learning.learn(decision.limits)
    try {
      const { limits, units, kind } = decision
      const verdict = kind === 'look' ? outage.look(limits) : outage.charge(limits, units)
      if (kind === 'charge') decision.countedHere = verdict.refused < 0 ? limits.length : verdict.refused
      decision.settle(verdict)
    } catch (cause) {
      decision.fail(cause)
    }
  }

  /** While Redis is away. */
  function apart(limits: readonly Charge[], units: number, kind: 'charge' | 'look') {
    const learns = isCounting(limits) ? learning.learn(limits) : null
    if (learns === null) return kind === 'look' ? outage.look(limits) : outage.charge(limits, units)
    const decision = waiting(limits, units, kind, moments.now())
    decideBehind(decision, learns)
    return decision.promise
  }

  function decideBehind(decision: Decision, learns: Promise<unknown>): void {
    void learns.then(() => {
      if (!decision.settled) without(decision)
    })
  }

  /** What waits for Redis is decided now, or once the ledger told: within its budget in any case. */
  function opened(): void {
    quotas.doubt()
    const now = moments.now()
    for (const decision of deadlines.take()) {
      const learns = isCounting(decision.limits) ? learning.learn(decision.limits) : null
      if (learns === null) without(decision)
      else {
        deadlines.add(decision, now)
        decideBehind(decision, learns)
      }
    }
    for (const release of releases) release()
  }

  function waiting(limits: readonly Charge[], units: number, kind: 'charge' | 'look', now: number): Decision {
    const decision = new Decision(limits, units, kind, now + budgetMs)
    deadlines.add(decision, now)
    return decision
  }

  function forgetHere(ids: readonly string[]): void {
    local.forget(ids)
    local.dump(ids.length)
    refusals.forget(ids)
    leases.forget(ids)
    learning.forget(ids)
    quotas.forget(ids)
  }

  /** Brings Redis what it missed: first what is to be forgotten, then what was counted since. */
  function recover(): Promise<void> {
    recovering ??= bring().finally(() => {
      recovering = null
    })
    return recovering
  }

  async function bring(): Promise<void> {
    while (unforgotten.size > 0) {
      const ids = [...unforgotten].slice(0, BATCH)
      for (const id of ids) echoes.add(id)
      await remote.forget(ids)
      for (const id of ids) unforgotten.delete(id)
    }
    for (;;) {
      const states = quotas.unadded(BATCH)
      if (states.length === 0) return
      await remote.add(states)
      quotas.added(states)
    }
  }

  return {
    charge(limits, units = 1) {
      if (breaker.isOpen) return apart(limits, units, 'charge')
      const now = moments.now()
      if (limits.length === 0) return { refused: -1, standings: [], now: moments.there(now) }
      const verdict = asking.atOnce(limits, units, now)
      if (verdict !== null) return verdict
      const decision = waiting(limits, units, 'charge', now)
      asking.pursue(decision, now)
      return decision.promise
    },

    look(limits) {
      if (breaker.isOpen) return apart(limits, 1, 'look')
      const now = moments.now()
      if (limits.length === 0) return { refused: -1, standings: [], now: moments.there(now) }
      const refused = refusals.find(limits, now)
      if (refused !== null) return refused
      const decision = waiting(limits, 1, 'look', now)
      asking.look(decision, now)
      return decision.promise
    },

    async forget(ids) {
      forgetHere(ids)
      await kept?.forget(ids)
      for (const id of ids) {
        if (unforgotten.size >= MOST_FORGOTTEN) unforgotten.delete(unforgotten.values().next().value!)
        unforgotten.add(id)
      }
      if (breaker.isOpen) return
      await new Promise<void>(resolve => {
        const cancel = clock.after(FORGET_MS, resolve)
        releases.add(resolve)
        remote
          .forget(ids)
          .then(
            () => {
              for (const id of ids) unforgotten.delete(id)
            },
            () => {}
          )
          .finally(() => {
            cancel()
            releases.delete(resolve)
            resolve()
          })
      })
      // What was asked before and answered meanwhile tells of the counter that is gone.
      forgetHere(ids)
      await kept?.forget(ids)
    },

    dump(limit = Number.POSITIVE_INFINITY) {
      const states = remote.dump(limit)
      if (!isClosed || states.length >= limit) return states
      return [...states, ...quotas.leftOver(limit - states.length)]
    },

    restore: states => remote.restore(states),

    async close() {
      if (isClosed) return
      if (!breaker.isOpen && (!quotas.isAdded || unforgotten.size > 0)) await recover().catch(() => {})
      isClosed = true
      leases.close()
      await Promise.all(returning)
      breaker.close()
      deadlines.end()
    }
  }
}
