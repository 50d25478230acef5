import type { Clock, Log } from '../../../config/world.ts'
import { Undelivered } from '../../undelivered.ts'
import type { Address, Client } from './client.ts'
import { isRefused, textOf, undelivered } from './errors.ts'
import { Link } from './link.ts'

/** Longest wait for a connection, versions and login together. A loaded broker needs a second for a login. */
const connectMs = 3_000
/** A broker that answers a probe later than this is as good as none. */
const probeMs = 1_000
/** So many failures in a row, and callers no longer wait to see the next one. */
const threshold = 3

export interface NodeTools {
  readonly client: Client
  readonly clock: Clock
  readonly log: Log
  /** A node came up or went down, or its fault is another one. */
  changed(): void
}

/** One broker process by its address: its shared connection, and whether it is worth trying. */
export class Node {
  readonly address: Address
  readonly name: string
  readonly #tools: NodeTools
  readonly #shared = new Map<string, Link>()
  readonly #opening = new Map<string, Promise<Link>>()
  readonly #own = new Set<Link>()
  #failures = 0
  #fault: Undelivered | null = null
  /** Of the newest connection or request that failed; null: one has come about since. */
  #trouble: Undelivered | null = null
  /** With these settings, at some time. */
  #hasWorked = false
  #cancelProbe: (() => void) | null = null
  #isSuspected = false
  #isClosed = false

  constructor(address: Address, tools: NodeTools) {
    this.address = address
    this.name = address.host.includes(':') ? `[${address.host}]:${address.port}` : `${address.host}:${address.port}`
    this.#tools = tools
  }

  /** Why nobody should wait for this node now: it is probed once a second until it answers. Null: it may be used. */
  get fault(): Undelivered | null {
    return this.#fault
  }

  /** What failed last, also when it is still to be tried; null: it works. */
  get trouble(): Undelivered | null {
    return this.#fault ?? this.#trouble
  }

  get hasConnection(): boolean {
    for (const link of this.#shared.values()) if (link.isReady) return true
    for (const link of this.#own) if (link.isReady) return true
    return false
  }

  /** A connection for this use that everybody shares. @throws Undelivered at once when the node is known to be down */
  shared(use: 'produce' | 'ask'): Link | Promise<Link> {
    const kept = this.#shared.get(use)
    if (kept?.isReady === true) return kept
    let opening = this.#opening.get(use)
    if (opening !== undefined) return opening
    if (this.#fault !== null) return Promise.reject(this.#fault)
    const link = this.#link()
    this.#shared.set(use, link)
    opening = this.#open(link, connectMs).finally(() => this.#opening.delete(use))
    this.#opening.set(use, opening)
    return opening
  }

  /** A connection of one's own, for requests that wait long. The one who asks closes it. @throws as `shared` */
  own(): Promise<Link> {
    if (this.#fault !== null) return Promise.reject(this.#fault)
    const link = this.#link()
    this.#own.add(link)
    return this.#open(link, connectMs)
  }

  /** It did not answer what it was asked: looks whether it lives, without waiting for more failures. */
  suspect(): void {
    if (this.#isClosed || this.#fault !== null) return
    this.#failures = threshold - 1
    // A probe is under way or due at once: asked again and again, it would never get to it.
    if (this.#isSuspected) return
    this.#isSuspected = true
    this.#cancelProbe?.()
    this.#cancelProbe = this.#tools.clock.after(0, () => this.#probe())
  }

  close(): void {
    this.#isClosed = true
    this.#cancelProbe?.()
    this.#cancelProbe = null
    for (const link of [...this.#shared.values(), ...this.#own]) link.close()
  }

  #link(): Link {
    return new Link(this.#tools.client, this.address, this.#tools.clock, link => this.#lost(link))
  }

  #lost(link: Link): void {
    this.#own.delete(link)
    for (const [use, kept] of this.#shared) {
      if (kept !== link) continue
      this.#shared.delete(use)
      // It connects, perhaps, and answers nothing.
      if (link.isMute) return this.suspect()
      // What broke while nobody used it is looked after, so that the state is true before the next message finds out.
      if (!this.#isClosed && this.#fault === null && this.#cancelProbe === null) this.#later(100)
    }
  }

  async #open(link: Link, timeoutMs: number): Promise<Link> {
    try {
      await link.open(timeoutMs)
    } catch (error) {
      // The wrong side of a listener, unless it was the right one before.
      const isWrong = isRefused(error) || (link.isTurnedAway && !this.#hasWorked)
      const fault = undelivered(isWrong ? 'misconfigured' : 'unavailable', error)
      // Nobody else should wait as long to learn the same.
      if (link.isMute) this.#failures = threshold
      link.close()
      this.#failed(fault)
      throw fault
    }
    this.#worked()
    return link
  }

  #failed(fault: Undelivered): void {
    if (this.#isClosed) return
    this.#failures++
    this.#trouble = fault
    if (this.#failures >= threshold) {
      if (this.#fault === null)
        this.#tools.log.warn('kafka broker cannot be used', { broker: this.name, reason: textOf(fault) })
      this.#fault = fault
    }
    this.#tools.changed()
    // One that was suspected for no reason counts as failed once; as long as it is down, it is asked once a second.
    if (this.#cancelProbe === null) this.#later(this.#fault === null ? 300 : 1_000)
  }

  #worked(): void {
    this.#failures = 0
    this.#hasWorked = true
    if (this.#trouble === null) return
    this.#trouble = null
    if (this.#fault !== null) this.#tools.log.info('kafka broker can be used again', { broker: this.name })
    this.#fault = null
    this.#tools.changed()
  }

  #later(ms: number): void {
    this.#cancelProbe = this.#tools.clock.after(ms, () => this.#probe())
  }

  #probe(): void {
    this.#cancelProbe = null
    if (this.#isClosed) return
    const link = this.#link()
    this.#own.add(link)
    const wasDown = this.#fault !== null
    this.#open(link, probeMs).then(
      () => {
        this.#isSuspected = false
        link.close()
      },
      () => {
        this.#isSuspected = false
        // Silent at two probes: what is under way has waited long enough. At the first it may have been a pause, and answers come yet.
        if (wasDown && link.isMute)
          for (const shared of [...this.#shared.values()]) shared.close('ETIMEDOUT', 'it is silent')
      }
    )
  }
}

/** @throws Undelivered */
export const closedFault = (): Undelivered => new Undelivered('unavailable', 'the broker was closed')
