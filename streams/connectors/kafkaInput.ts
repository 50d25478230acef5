import { KafkaInput } from '../../config/shape/stream.ts'
import type { Broker, Place, Position, Reading, Taker } from '../broker.ts'
import type { Connector, ConnectorTools, Deliver, Input, InputKind } from '../connector.ts'
import type { Arrived } from '../message.ts'
import { Undelivered } from '../undelivered.ts'
import { backoffMs } from './backoff.ts'
import { type Buffering, bufferOf, checkInput, joiningOf } from './kafkaOptions.ts'
import { Lane } from './lane.ts'

export { bufferOf, joiningOf } from './kafkaOptions.ts'

/** Records that are handed on at once, and their bytes; so many may come twice when one of them is not delivered. */
const BATCH = 500
const BATCH_BYTES = 1024 * 1024
/** What is dropped is told at most so often. */
const TELL_MS = 10_000
/** How long `close` waits for what is under way. */
const CLOSE_MS = 5000

/**
 * Reads as a member of a group and hands records on, each partition by itself and in its order. What was not delivered is
 * tried again until it is (streams R6): commits stay below it.
 */
export const kafkaInput: InputKind = {
  name: 'kafka',
  shape: KafkaInput,
  check: checkInput,
  open: (connector, deliver, tools) => new Reader(connector, deliver, tools)
}

class Reader implements Input, Taker {
  readonly #broker: Broker
  readonly #deliver: Deliver
  readonly #tools: ConnectorTools
  readonly #buffering: Buffering
  readonly #replays: boolean
  readonly #lanes = new Map<string, Lane>()
  /** Null: the taker is called before `join` has answered. */
  #reading: Reading | null = null
  #readFault: string | null = null
  #deliverFault: string | null = null
  #isClosed = false
  #cancelCommit: (() => void) | null = null
  #underWay = 0
  #idle: (() => void) | null = null
  #dropped = 0
  #toldAt = Number.NEGATIVE_INFINITY

  constructor({ options }: Connector, deliver: Deliver, tools: ConnectorTools) {
    const given = options as KafkaInput
    this.#deliver = deliver
    this.#tools = tools
    this.#buffering = bufferOf(given)
    this.#replays = given.auto_replay_nacks ?? true
    this.#broker = tools.broker(given)
    this.#reading = this.#broker.join(joiningOf(given, `svc.${tools.api}.${tools.stream}`), this)
  }

  fault(): string | null {
    return this.#readFault ?? this.#deliverFault ?? this.#broker.state().fault
  }

  assigned(positions: readonly Position[]): void {
    const names = new Set(positions.map(nameOf))
    for (const [name, lane] of this.#lanes) {
      if (names.has(name)) continue
      this.#lanes.delete(name)
      this.#leave(lane)
    }
    for (const { topic, partition, offset } of positions) {
      const name = nameOf({ topic, partition })
      const lane = this.#lanes.get(name)
      if (lane === undefined) this.#lanes.set(name, new Lane({ topic, partition }, offset))
      else {
        lane.readFrom(offset)
        this.#throttle(lane)
      }
    }
  }

  records(place: Place, records: readonly Arrived[]): void {
    const lane = this.#lanes.get(nameOf(place))
    if (lane === undefined) return
    lane.add(records)
    this.#throttle(lane)
    this.#next(lane)
  }

  gap({ topic, partition }: Place, from: number, to: number): void {
    this.#tools.log.warn('records are gone before they were read', { ...this.#name(), topic, partition, from, to })
  }

  state(fault: string | null): void {
    this.#readFault = fault
  }

  async close(): Promise<void> {
    this.#isClosed = true
    for (const lane of this.#lanes.values()) lane.cancel?.()
    if (this.#underWay > 0)
      await new Promise<void>(resolve => {
        const cancel = this.#tools.clock.after(CLOSE_MS, resolve)
        this.#idle = () => {
          cancel()
          resolve()
        }
      })
    this.#cancelCommit?.()
    await this.#commit()
    await this.#reading!.close()
    await this.#broker.close()
  }

  /** Pauses a partition that has enough, and lets it go on when half is gone. */
  #throttle(lane: Lane): void {
    const { bufferMessages, bufferBytes } = this.#buffering
    if (this.#reading === null) return
    if (!lane.isPaused && (lane.length >= bufferMessages || lane.bytes >= bufferBytes)) {
      lane.isPaused = true
      this.#reading.pause(lane.place)
    } else if (lane.isPaused && lane.length <= bufferMessages / 2 && lane.bytes <= bufferBytes / 2) {
      lane.isPaused = false
      this.#reading.resume(lane.place)
    }
  }

  #next(lane: Lane): void {
    if (lane.isBusy || this.#isClosed || lane.length === 0) return
    lane.isBusy = true
    const batch = lane.take(Math.min(BATCH, this.#buffering.checkpointLimit), BATCH_BYTES)
    this.#throttle(lane)
    this.#attempt(lane, batch, 0, batch.length)
  }

  /** Delivers a part of a batch: what is left of it, or less, to find the record that cannot be delivered. */
  #attempt(lane: Lane, batch: readonly Arrived[], from: number, to: number): void {
    this.#underWay++
    const part = from === 0 && to === batch.length ? batch : batch.slice(from, to)
    let delivered: Promise<void>
    try {
      delivered = this.#deliver(part)
    } catch (cause) {
      delivered = Promise.reject(cause)
    }
    delivered.then(
      () => {
        this.#ended()
        this.#deliverFault = null
        this.#went(lane, batch, to)
      },
      cause => {
        this.#ended()
        this.#failed(lane, batch, from, to, cause)
      }
    )
  }

  #failed(lane: Lane, batch: readonly Arrived[], from: number, to: number, cause: unknown): void {
    if (this.#isLost(lane)) return
    const isPoison = cause instanceof Undelivered && (cause.reason === 'invalid' || cause.reason === 'too_large')
    if (isPoison && to - from > 1) return this.#attempt(lane, batch, from, from + ((to - from) >> 1))
    if (isPoison || !this.#replays) {
      for (let i = from; i < to; i++) this.#drop(batch[i]!, cause)
      return this.#went(lane, batch, to)
    }
    this.#deliverFault = `messages are not delivered: ${messageOf(cause)}`
    if (lane.failures === 0)
      this.#tools.log.warn('messages are not delivered and are tried again', {
        ...this.#name(),
        ...lane.place,
        offset: batch[from]!.offset,
        cause: messageOf(cause)
      })
    if (this.#isClosed) return
    lane.cancel = this.#tools.clock.after(backoffMs(lane.failures++), () => {
      lane.cancel = null
      this.#attempt(lane, batch, from, to)
    })
  }

  /** All below `to` of a batch is done with. */
  #went(lane: Lane, batch: readonly Arrived[], to: number): void {
    if (this.#isLost(lane)) return
    lane.failures = 0
    lane.done = batch[to - 1]!.offset + 1
    this.#commitSoon()
    if (to < batch.length && !this.#isClosed) return this.#attempt(lane, batch, to, batch.length)
    lane.isBusy = false
    this.#next(lane)
  }

  #drop({ topic, partition, offset }: Arrived, cause: unknown): void {
    this.#dropped++
    const now = this.#tools.clock.now()
    if (now - this.#toldAt < TELL_MS) return
    this.#toldAt = now
    const dropped = this.#dropped
    this.#tools.log.warn('messages are dropped', {
      ...this.#name(),
      topic,
      partition,
      offset,
      dropped,
      cause: messageOf(cause)
    })
  }

  #commitSoon(): void {
    if (this.#cancelCommit !== null || this.#isClosed) return
    this.#cancelCommit = this.#tools.clock.after(this.#buffering.commitMs, () => {
      void this.#commit().then(() => {
        this.#cancelCommit = null
        for (const lane of this.#lanes.values()) if (lane.done > lane.committed) return this.#commitSoon()
      })
    })
  }

  async #commit(): Promise<void> {
    const lanes = [...this.#lanes.values()].filter(lane => lane.done > lane.committed)
    if (lanes.length === 0) return
    const positions = lanes.map(({ place, done }) => ({ ...place, offset: done }))
    try {
      await this.#reading!.commit(positions)
      for (const [i, lane] of lanes.entries()) lane.committed = positions[i]!.offset
    } catch (cause) {
      this.#tools.log.debug('a commit was not kept', { ...this.#name(), cause: messageOf(cause) })
    }
  }

  #isLost(lane: Lane): boolean {
    return this.#lanes.get(nameOf(lane.place)) !== lane
  }

  #leave(lane: Lane): void {
    lane.cancel?.()
    // When the partition comes back, it comes to an empty lane.
    if (lane.isPaused) this.#reading!.resume(lane.place)
  }

  #ended(): void {
    this.#underWay--
    if (this.#underWay === 0) this.#idle?.()
  }

  #name() {
    const { api, stream } = this.#tools
    return { api_id: api, stream }
  }
}

function nameOf({ topic, partition }: Place): string {
  return `${topic}:${partition}`
}

function messageOf(cause: unknown): string {
  return cause instanceof Error ? cause.message : String(cause)
}
