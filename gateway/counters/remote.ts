import type { Charge, CounterState, Verdict } from './counters.ts'

/**
 * Counters outside of the process, as the layers above them see them: `countersRedis` is one. `countersShared` puts what
 * a process needs around it: leases, remembered refusals, and what holds while it does not answer.
 */

/** As `Verdict`; `taken[i]`: what was taken of charge i, beginning with the request itself. 0 for the one that refused. */
export interface Taken extends Verdict {
  readonly taken: readonly number[]
}

export interface Remote {
  /**
   * As `Counters.charge`, in one step on a single server. `most[i]`, where given, is how many units of charge i to take
   * if there are so many (at least the request's own); the caller spends the rest by itself.
   * @throws RemoteFault (rejects with it)
   */
  charge(limits: readonly Charge[], units: number, most: readonly number[] | null): Promise<Taken>
  /** @throws RemoteFault */
  look(limits: readonly Charge[]): Promise<Verdict>
  /** Everybody's `onForgotten` hears of it. @throws RemoteFault */
  forget(ids: readonly string[]): Promise<void>
  /** Hears of counters that were cleared by any process; null: some may have been missed. */
  onForgotten(listener: (ids: readonly string[] | null) => void): void
  /**
   * Units back that were taken and not spent, where the window is still the same.
   * @param at the verdict's `now` when they were taken; without it the window that runs now is taken for the same
   * @throws RemoteFault
   */
  giveBack(limit: Charge, units: number, at?: number): Promise<void>
  /**
   * Adds what was counted elsewhere while it was away: `states` hold what is to be added, not what stands. An ended period
   * is dropped. @throws RemoteFault
   */
  add(states: readonly CounterState[]): Promise<void>
  /** As `Counters.restore` and `Counters.dump`: states are on its clock. */
  restore(states: readonly CounterState[]): Promise<void>
  dump(limit?: number): readonly CounterState[]
  /**
   * Says that this process lives, and tells how many do (this one included): those that said so within the last ten
   * seconds. Writes, so that it also shows whether the server takes writes. @throws RemoteFault
   */
  alive(): Promise<number>
  /** Whether there is a connection that could answer. Told at once when that changes. */
  readonly isConnected: boolean
  onConnected(listener: (isConnected: boolean) => void): void
  close(): Promise<void>
}

/** Why Redis did not do what it was asked: gone, read-only, out of memory, failing over. In one line, without passwords. */
export class RemoteFault extends Error {}
