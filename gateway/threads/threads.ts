import type { AddressInfo } from 'node:net'
import { availableParallelism } from 'node:os'
import type { Worker } from 'node:worker_threads'
import type { Settings } from '../../config/settings.ts'
import type { Clock, Log } from '../../config/world.ts'
import type { Changes } from '../changes/changes.ts'
import type { CounterState } from '../counters/counters.ts'
import type { FilesRead } from '../documents/files.ts'
import { type Part, part } from '../probes.ts'
import type { Store } from '../store/store.ts'
import type { Tickets } from '../tls/tickets.ts'
import type { Gathered } from './gathered.ts'
import { lastRead } from './lastRead.ts'
import { Member } from './member.ts'
import type { RelayPlace } from './relayed.ts'
import { lockPort, vacant } from './vacant.ts'
import type { Given } from './words.ts'

/** One that dies again and again is started after 0, 1, 2 … seconds. */
const MOST_DELAY_S = 10
/** One that lived so long begins anew with that. */
const STEADY_MS = 30_000
/** What a thread may take behind the time of its requests: last lines, last counters. */
const FAREWELL_MS = 3_000
/** A thread that is busy for longer dumps its counters the next time. */
const DUMP_MS = 1_000
/** One that is busy for longer may refuse a last request to a stream. */
const STOP_LISTENING_MS = 1_000
/** How often each is asked whether it lives; one that does not answer is ended (`Member.tell`). */
const PULSE_MS = 2_000

/** How many threads serve the data plane; 1: the main thread alone. */
export function threadCount({ gateway: { workers } }: Settings): number {
  return workers === 0 ? availableParallelism() : workers
}

export interface ThreadsGiven {
  readonly settings: Settings
  readonly count: number
  readonly store: Store
  readonly changes: Changes
  readonly clock: Clock
  readonly log: Log
  readonly relay: RelayPlace
  /** Null: no TLS. */
  readonly tickets: Tickets | null
  /** Takes whole lines of access logs. */
  readonly access: (text: string) => void
  /** Null: each thread opens its own, which lie outside of the process. */
  readonly counters: Gathered | null
  /** What fails of a thread's counters outside of the process; null: nothing, or not any more. */
  readonly onCounters: (thread: number, failure: string | null) => void
}

/** The threads that serve the data plane, as the main thread sees them. One that ends is started anew until `drain`. */
export interface Threads {
  /**
   * Each serves what the main thread has read, from now on also one that is started anew; first of all, and at each reload.
   * Resolves when all that live do.
   */
  load(files: FilesRead): Promise<void>
  /**
   * Resolves when each has read everything and listens on one port; 0: any free one.
   * @throws Error in one line: somebody listens there, or a thread could not read or start
   */
  listen(port: number, address: string): Promise<AddressInfo>
  /** As `GatewayServer`. */
  announceEnd(): void
  /** No new requests; resolves when those that came for the main thread are here, or on their way. */
  stopListening(): Promise<void>
  /** As `GatewayServer`; then all have ended, and the next dump of the counters has what they counted last. */
  drain(ms: number): Promise<void>
  /** Threads that serve now. */
  readonly running: number
  readonly count: number
  readonly workers: readonly Worker[]
  /** Ends all at once. */
  close(): Promise<void>
}

/** For the probes: those that are missing are no reason to get no requests. */
export function partOf({ running, count }: Pick<Threads, 'running' | 'count'>, clock: Clock): Part {
  const failure = running === count ? null : `${running} of ${count} threads serve`
  return { ...part(failure, clock, false), componentType: 'component' }
}

export function startThreads(given: ThreadsGiven): Threads {
  const { settings, count, changes, clock, log, counters } = given
  const slots = Array.from({ length: count }, (_, i): Slot => ({ number: i + 1, deaths: 0, cancel() {}, member: null }))
  let place: { port: number; address: string } | null = null
  /** What the main thread serves; null: it has yet to read. */
  let read: FilesRead | null = null
  let isEnding = false
  let isOver = false
  let unlock = () => {}
  /** What threads dumped when nobody waited for it any more. */
  let left: CounterState[] = []
  const { gateway } = settings
  // The main thread's log takes their lines.
  const access_logs = { ...gateway.access_logs, path: '' }
  const theirs: Settings = { ...settings, gateway: { ...gateway, access_logs } }
  const remembered = lastRead(given.store, changes)
  for (const slot of slots) slot.member = start(slot)
  counters?.gather(dump)
  const stop = changes.listen(async list => {
    const told = await Promise.allSettled(slots.map(({ member }) => member?.tell(list)))
    for (const one of told) if (one.status === 'rejected') throw one.reason
  })

  function start(slot: Slot): Member {
    const { number } = slot
    const bornAt = clock.now()
    const data: Given = {
      number,
      settings: theirs,
      relay: given.relay,
      tickets: given.tickets?.seed(bornAt) ?? null,
      counters: counters?.shared ?? null
    }
    const onCounters = (failure: string | null) => given.onCounters(number, failure)
    const member = new Member({ ...given, store: remembered.store, data, onCounters, onEnd: () => ended(slot, bornAt) })
    if (read !== null) void member.load(read)
    return member
  }

  function ended(slot: Slot, bornAt: number): void {
    slot.member = null
    counters?.ended(slot.number)
    given.onCounters(slot.number, null)
    // Before all listen, `listen` tells.
    if (isOver || place === null) return
    if (clock.now() - bornAt >= STEADY_MS) slot.deaths = 0
    const seconds = Math.min(slot.deaths++, MOST_DELAY_S)
    log.error('thread ended: it is started again', { thread: slot.number, seconds })
    const again = () => void restart(slot)
    if (seconds === 0) again()
    else slot.cancel = clock.after(seconds * 1000, again)
  }

  async function restart(slot: Slot): Promise<void> {
    const member = start(slot)
    slot.member = member
    try {
      await member.loaded
      await member.ask({ is: 'listen', ...place! })
      if (isEnding) await member.ask({ is: 'announceEnd' })
      if (!isOver) log.info('thread serves again', { thread: slot.number })
    } catch (cause) {
      if (isOver) return
      log.error('the thread cannot start', { thread: slot.number, cause: (cause as Error).message })
      await member.end()
    }
  }

  let stopPulse = clock.after(PULSE_MS, pulse)

  /** A change of nothing: who is stuck does not confirm it. */
  async function pulse(): Promise<void> {
    await Promise.allSettled(members().map(member => member.tell([])))
    if (!isOver) stopPulse = clock.after(PULSE_MS, pulse)
  }

  /** Nobody has to be told any more, and none is started again. */
  function end(): void {
    isOver = true
    stop()
    stopPulse()
    remembered.close()
    unlock()
    for (const { cancel } of slots) cancel()
  }

  function members(): Member[] {
    return slots.flatMap(({ member }) => (member?.isServing ? [member] : []))
  }

  /** The answer, or null after `ms` (then `late` gets it) or when the thread has ended. */
  function within<T>(answer: Promise<T>, ms: number, late: (value: T) => void = () => {}): Promise<T | null> {
    return new Promise(resolve => {
      let isLate = false
      const cancel = clock.after(ms, () => {
        isLate = true
        resolve(null)
      })
      const settle = (value: T | null) => {
        cancel()
        if (isLate && value !== null) late(value)
        resolve(value)
      }
      answer.then(settle, () => settle(null))
    })
  }

  const keep = (states: readonly CounterState[]) => {
    for (const state of states) left.push(state)
  }

  /** What the threads' counters dump, at most `limit` each. */
  async function dump(limit: number): Promise<readonly CounterState[]> {
    const asked = members().map(member =>
      within(member.ask<readonly CounterState[]>({ is: 'dump', limit }), DUMP_MS, keep)
    )
    for (const states of await Promise.all(asked)) keep(states ?? [])
    const states = left
    left = []
    return states
  }

  return {
    async load(files) {
      read = files
      if (!isOver) await Promise.all(slots.map(({ member }) => member?.load(files)))
    },
    async listen(port, address) {
      await Promise.all(slots.map(({ member, number }) => member?.loaded ?? gone(number)))
      // Again: meanwhile somebody may have come.
      unlock = await lockPort(port, address)
      await vacant(port, address)
      const [first, ...others] = members()
      const bound = await first!.ask<AddressInfo>({ is: 'listen', port, address })
      place = { port: bound.port, address }
      await Promise.all(others.map(member => member.ask({ is: 'listen', ...place! })))
      return bound
    },
    announceEnd() {
      isEnding = true
      for (const member of members()) member.ask({ is: 'announceEnd' }).catch(() => {})
    },
    async stopListening() {
      isOver = true
      for (const { cancel } of slots) cancel()
      const stopped = members().map(member => within(member.ask<void>({ is: 'stopListening' }), STOP_LISTENING_MS))
      await Promise.all(stopped)
    },
    async drain(ms) {
      end()
      const drained = members().map(member => within(member.ask<CounterState[]>({ is: 'drain', ms }), ms + FAREWELL_MS))
      for (const states of await Promise.all(drained)) keep(states ?? [])
      await Promise.all(slots.map(({ member }) => member?.end()))
    },
    get running() {
      return members().length
    },
    count,
    get workers() {
      return slots.flatMap(({ member }) => (member === null ? [] : [member.worker]))
    },
    async close() {
      end()
      await Promise.all(slots.map(({ member }) => member?.end()))
    }
  }
}

interface Slot {
  readonly number: number
  /** How often in a row it died young. */
  deaths: number
  /** Of the restart that waits. */
  cancel: () => void
  member: Member | null
}

function gone(number: number): never {
  throw new Error(`thread ${number} ended while it started`)
}
