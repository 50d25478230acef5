import { BrokerOutput } from '../../config/shape/stream.ts'
import type { Clock } from '../../config/world.ts'
import type { Call } from '../call.ts'
import type { Connector, ConnectorTools, Output, OutputKind } from '../connector.ts'
import type { Message, Placed } from '../message.ts'
import { type Fate, Undelivered } from '../undelivered.ts'
import { Remainder } from './remainder.ts'

type Pattern =
  | 'fan_out'
  | 'fan_out_fail_fast'
  | 'fan_out_sequential'
  | 'fan_out_sequential_fail_fast'
  | 'round_robin'
  | 'greedy'

interface Options {
  readonly copies?: number
  readonly pattern?: Pattern
}

type Sent = readonly (Placed | null)[]

/** Waits before the next try of a `fan_out`. */
const FIRST_MS = 100
const LONGEST_MS = 1000
/** So long an output that failed is the last choice; twice as long with each failure more. */
const AVOID_MS = 5000
const LONGEST_AVOID_MS = 60_000

/**
 * Several outputs as one. `fan_out`: all of them, each tried again until the deadline; `…_sequential`: one after another;
 * `…_fail_fast`: the first failure counts; `round_robin`: one in turn, the next when it fails; `greedy`: the one that has the least
 * to do, the next when it fails. Those two leave each try its share of the time, so that one that hangs is not the end, and
 * try last what failed lately. What all get is answered with the place in the first.
 */
export const brokerOutput: OutputKind = {
  name: 'broker',
  shape: BrokerOutput,
  open: (connector, tools) => new Fan(connector, tools)
}

class Fan implements Output {
  readonly #pattern: Pattern
  readonly #outputs: readonly Output[]
  /** Calls under way, by output. */
  readonly #busy: number[]
  /** Failures in a row, by output, and until when it is the last choice. */
  readonly #failures: number[]
  readonly #avoided: number[]
  readonly #clock: Clock
  readonly #waits = new Set<() => void>()
  #next = 0
  #isClosed = false

  constructor({ options, children }: Connector, tools: ConnectorTools) {
    const { copies = 1, pattern = 'fan_out' } = options as Options
    this.#pattern = pattern
    this.#clock = tools.clock
    this.#outputs = Array.from({ length: copies }, () => children.map(child => tools.output(child))).flat()
    this.#busy = this.#outputs.map(() => 0)
    this.#failures = this.#outputs.map(() => 0)
    this.#avoided = this.#outputs.map(() => 0)
  }

  send(messages: readonly Message[], call: Call | null, deadline: number): Promise<Sent> {
    const { length } = this.#outputs
    switch (this.#pattern) {
      case 'fan_out':
        return this.#all(i => this.#lasting(i, messages, call, deadline))
      case 'fan_out_fail_fast':
        return this.#hasty(i => this.#once(i, messages, call, deadline))
      case 'fan_out_sequential':
        return this.#each(i => this.#lasting(i, messages, call, deadline))
      case 'fan_out_sequential_fail_fast':
        return this.#each(i => this.#once(i, messages, call, deadline))
      case 'round_robin': {
        const first = this.#next
        this.#next = (first + 1) % length
        const turn = this.#outputs.map((_, i) => (first + i) % length)
        return this.#any(turn, messages, call, deadline)
      }
      case 'greedy': {
        const idle = this.#outputs.map((_, i) => i).sort((a, b) => this.#busy[a]! - this.#busy[b]!)
        return this.#any(idle, messages, call, deadline)
      }
    }
  }

  /** All at once, until all have ended: then nothing of it is under way. */
  async #all(send: (i: number) => Promise<Sent>): Promise<Sent> {
    const results = await Promise.allSettled(this.#outputs.map((_, i) => send(i)))
    const failed = results.flatMap(result => (result.status === 'rejected' ? [result.reason] : []))
    if (failed.length > 0) throw together(judged(failed, failed.length < results.length), failed)
    return (results[0] as PromiseFulfilledResult<Sent>).value
  }

  /** The first failure is told at once; what the others do then nobody waits for. */
  async #hasty(send: (i: number) => Promise<Sent>): Promise<Sent> {
    try {
      return (await Promise.all(this.#outputs.map((_, i) => send(i))))[0]!
    } catch (cause) {
      throw plain(judged([cause], this.#outputs.length > 1))
    }
  }

  async #each(send: (i: number) => Promise<Sent>): Promise<Sent> {
    let first: Sent | null = null
    for (let i = 0; i < this.#outputs.length; i++) {
      try {
        const sent = await send(i)
        first ??= sent
      } catch (cause) {
        const fault = judged([cause], first !== null)
        // Those behind it have nothing yet.
        throw i === this.#outputs.length - 1 ? fault : plain(fault)
      }
    }
    return first!
  }

  async #any(
    turn: readonly number[],
    messages: readonly Message[],
    call: Call | null,
    deadline: number
  ): Promise<Sent> {
    const failed: unknown[] = []
    const remainder = new Remainder(messages)
    const order = turn.toSorted((a, b) => Number(this.#isAvoided(a)) - Number(this.#isAvoided(b)))
    for (const [at, i] of order.entries()) {
      const now = this.#clock.now()
      if (at > 0 && now >= deadline) break
      try {
        const sent = await this.#once(i, remainder.messages, call, now + (deadline - now) / (order.length - at))
        this.#failures[i] = 0
        return remainder.sent(sent)
      } catch (cause) {
        remainder.failed(cause)
        if (isOfOutput(cause)) this.#avoid(i)
        failed.push(cause)
        // It says that the message ends here.
        if (cause instanceof Undelivered && cause.reason === 'rejected') break
      }
    }
    const cause = judged(failed, false)
    throw cause instanceof Undelivered ? remainder.fault(cause, cause.reason) : cause
  }

  #avoid(i: number): void {
    const ms = Math.min(LONGEST_AVOID_MS, AVOID_MS * 2 ** Math.min(10, this.#failures[i]!++))
    this.#avoided[i] = this.#clock.now() + ms
  }

  /** When its time is over, one call alone finds out. */
  #isAvoided(i: number): boolean {
    return this.#failures[i]! > 0 && (this.#clock.now() < this.#avoided[i]! || this.#busy[i]! > 0)
  }

  async #once(i: number, messages: readonly Message[], call: Call | null, deadline: number): Promise<Sent> {
    this.#busy[i]!++
    try {
      return await this.#outputs[i]!.send(messages, call, deadline)
    } finally {
      this.#busy[i]!--
    }
  }

  async #lasting(i: number, messages: readonly Message[], call: Call | null, deadline: number): Promise<Sent> {
    let isUnknown = false
    const remainder = new Remainder(messages)
    for (let wait = FIRST_MS; ; wait = Math.min(2 * wait, LONGEST_MS)) {
      try {
        return remainder.sent(await this.#once(i, remainder.messages, call, deadline))
      } catch (cause) {
        remainder.failed(cause)
        if (!(cause instanceof Undelivered)) throw cause
        if (!isPassing(cause)) throw remainder.fault(cause, cause.reason)
        isUnknown ||= cause.reason === 'unknown'
        if (this.#isClosed || this.#clock.now() + wait >= deadline)
          throw remainder.fault(cause, isUnknown ? 'unknown' : cause.reason)
      }
      await this.#pause(wait)
    }
  }

  #pause(ms: number): Promise<void> {
    return new Promise(resolve => {
      const end = () => {
        cancel()
        this.#waits.delete(end)
        resolve()
      }
      const cancel = this.#clock.after(ms, end)
      this.#waits.add(end)
    })
  }

  /** With a choice, one that works is enough. */
  fault(): string | null {
    const faults = this.#outputs.map(output => output.fault())
    const isChoice = this.#pattern === 'round_robin' || this.#pattern === 'greedy'
    if (isChoice && faults.includes(null)) return null
    return faults.find(fault => fault !== null) ?? null
  }

  async close(): Promise<void> {
    this.#isClosed = true
    for (const end of [...this.#waits]) end()
    await Promise.all(this.#outputs.map(output => output.close()))
  }
}

/** Another try may go well. */
function isPassing({ reason }: Undelivered): boolean {
  return reason === 'unavailable' || reason === 'unknown' || reason === 'busy' || reason === 'failed'
}

/** It says something of the output, not of the message or of a bound that passes. */
function isOfOutput(cause: unknown): boolean {
  return !(cause instanceof Undelivered) || !['busy', 'too_large', 'invalid', 'rejected'].includes(cause.reason)
}

/** What several outputs tell of each message: delivered is what all have. */
function together(judged: unknown, failed: readonly unknown[]): unknown {
  if (!(judged instanceof Undelivered)) return judged
  const told = failed.map(cause => (cause instanceof Undelivered ? cause.each : null))
  const count = told[0]?.length ?? 0
  const each: Fate[] = Array.from({ length: count }, () => null)
  for (const fates of told) {
    if (fates === null) return plain(judged)
    for (let i = 0; i < count; i++) if (fates[i] !== null) each[i] = unlessPassing(each[i], fates[i])
  }
  return new Undelivered(judged.reason, judged.message, { cause: judged, each, isForeign: judged.isForeign })
}

/** While one output may still take it, another's last word does not end the message. */
function unlessPassing(one: Fate, other: Fate): Fate {
  return one && isPassing(one) ? one : (other ?? one ?? undefined)
}

/** Without telling the messages apart. */
function plain(cause: unknown): unknown {
  if (!(cause instanceof Undelivered) || cause.each === null) return cause
  return new Undelivered(cause.reason, cause.message, { cause, isForeign: cause.isForeign })
}

/**
 * What several failures come to. Where some may have it already, nobody may be told that trying again is safe.
 * @param hasSome an output has the messages
 */
function judged(failed: readonly unknown[], hasSome: boolean): unknown {
  const mayHave = hasSome || failed.some(cause => !(cause instanceof Undelivered) || cause.reason === 'unknown')
  const last = failed.at(-1)
  if (!mayHave || !(last instanceof Undelivered)) return last
  return last.reason === 'unavailable' || last.reason === 'busy'
    ? new Undelivered('unknown', last.message, { cause: last, each: last.each })
    : last
}
