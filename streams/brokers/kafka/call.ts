import type { Produce } from '../../broker.ts'
import { type Placed, sizeOf } from '../../message.ts'
import { type Reason, Undelivered } from '../../undelivered.ts'

/** Where a call waits for its turn. */
interface Line {
  readonly room: { add(call: { readonly size: number; readonly count: number }, sign: 1 | -1): void }
  /** Lets go of calls that nobody waits for any more. */
  forgetSettled(): void
}

/** One call of `produce` on its way. */
export class Call {
  readonly what: Produce
  readonly lane: Line
  readonly size: number
  readonly promise: Promise<readonly Placed[]>
  /** Part of it has left this process; what became of it is not known yet. */
  isSent = false
  isSettled = false
  readonly #placed: Placed[] = []
  #left: number
  #written = 0
  #fault: Undelivered | null = null
  #resolve!: (placed: readonly Placed[]) => void
  #reject!: (fault: Undelivered) => void
  readonly #settled: (call: Call) => void

  constructor(what: Produce, lane: Line, settled: (call: Call) => void) {
    this.what = what
    this.lane = lane
    this.#left = what.messages.length
    this.#settled = settled
    let size = 0
    for (let i = 0; i < what.messages.length; i++) size += sizeOf(what.messages[i]!)
    this.size = size
    this.promise = new Promise((resolve, reject) => {
      this.#resolve = resolve
      this.#reject = reject
    })
  }

  get count(): number {
    return this.what.messages.length
  }

  written(index: number, placed: Placed): void {
    this.#placed[index] = placed
    this.#written++
    this.#answered(1)
  }

  /** This many of its messages were not acknowledged. */
  failed(count: number, fault: Undelivered): void {
    if (this.#fault === null || weight(fault.reason) > weight(this.#fault.reason)) this.#fault = fault
    this.#answered(count)
  }

  /** Nothing more will be heard of it: its time is over, or something is wrong here. */
  giveUp(message: string): void {
    this.#settle(new Undelivered(this.isSent || this.#written > 0 ? 'unknown' : 'unavailable', message))
  }

  #answered(count: number): void {
    this.#left -= count
    if (this.#left === 0) this.#settle(this.#fault)
  }

  #settle(fault: Undelivered | null): void {
    if (this.isSettled) return
    this.isSettled = true
    this.#settled(this)
    if (fault === null) this.#resolve(this.#placed)
    // "Nothing was written, try again" would be wrong when another part of the call was.
    else if (this.#written === 0 || (fault.reason !== 'unavailable' && fault.reason !== 'busy')) this.#reject(fault)
    else this.#reject(new Undelivered('unknown', fault.message, { cause: fault }))
  }
}

/** Of several reasons, the one that says most about whether to try again. */
function weight(reason: Reason): number {
  return reason === 'unknown' ? 2 : reason === 'unavailable' || reason === 'busy' ? 0 : 1
}

/** Messages of one partition that go as one batch: some of each call, in order. */
export class Part {
  readonly partition: number
  readonly calls: Call[] = []
  readonly indexes: number[] = []
  bytes = 0
  timestamp = 0
  encoded: Buffer | null = null
  /** Under which it was encoded. */
  identity: unknown = null
  /** It was sent, and whether it was written is not known. */
  isUnclear = false

  constructor(partition: number) {
    this.partition = partition
  }

  get count(): number {
    return this.calls.length
  }

  add(call: Call, index: number): void {
    this.calls.push(call)
    this.indexes.push(index)
    this.bytes += sizeOf(call.what.messages[index]!)
  }

  /** Without those that nobody waits for any more; not of what may have been written. */
  withoutSettled(): Part {
    if (!this.calls.some(({ isSettled }) => isSettled)) return this
    const part = new Part(this.partition)
    for (let i = 0; i < this.calls.length; i++)
      if (!this.calls[i]!.isSettled) part.add(this.calls[i]!, this.indexes[i]!)
    return part
  }

  halves(): [Part, Part] {
    const halves: [Part, Part] = [new Part(this.partition), new Part(this.partition)]
    for (let i = 0; i < this.calls.length; i++)
      halves[i < this.calls.length / 2 ? 0 : 1].add(this.calls[i]!, this.indexes[i]!)
    return halves
  }

  sent(): void {
    for (let i = 0; i < this.calls.length; i++) this.calls[i]!.isSent = true
  }

  /** It was refused: nothing of it was written. */
  refused(): void {
    for (let i = 0; i < this.calls.length; i++) this.calls[i]!.isSent = false
  }

  written(topic: string, offset: number, timestamp: number): void {
    for (let i = 0; i < this.calls.length; i++) {
      const place = { topic, partition: this.partition, offset: offset < 0 ? -1 : offset + i, timestamp }
      this.calls[i]!.written(this.indexes[i]!, place)
    }
  }

  failed(fault: Undelivered): void {
    for (let i = 0; i < this.calls.length; i++) this.calls[i]!.failed(1, fault)
  }
}
