import { KafkaInput } from '../../config/shape/stream.ts'
import type { Broker, Place, Position, Reading, Taker } from '../broker.ts'
import type { Connector, ConnectorTools, Deliver, Input, InputKind, InputStatus } from '../connector.ts'
import type { Arrived, Message } from '../message.ts'
import { within } from '../within.ts'
import { CLOSE_MS, Handover, Tally } from './handover.ts'
import { type Buffering, bufferOf, checkInput, joiningOf } from './kafkaOptions.ts'
import { Lane } from './lane.ts'
import { messageOf } from './outgoing.ts'

export { bufferOf, joiningOf } from './kafkaOptions.ts'

/** Records that are handed on at once, and their bytes; so many may come twice when one of them is not delivered. */
const BATCH = 500
const BATCH_BYTES = 1024 * 1024

/**
 * Reads as a member of a group and hands records on, each partition by itself and in its order. What was not delivered is
 * tried again until it is (streams R6): commits stay below it, and what stands before it does not come again.
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
  readonly #tally = new Tally()
  readonly #lanes = new Map<string, Lane>()
  /** Null: the taker is called before `join` has answered. */
  #reading: Reading | null = null
  #readFault: string | null = null
  #isClosed = false
  #cancelCommit: (() => void) | null = null

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
    for (const { handover } of this.#lanes.values())
      if (handover.fault !== null) return this.#readFault ?? handover.fault
    return this.#readFault ?? this.#broker.state().fault
  }

  status(): InputStatus {
    const { dropped, redelivered } = this.#tally
    let lag = 0
    for (const { high, done } of this.#lanes.values()) lag += Math.max(0, high - done)
    return { dropped, redelivered, lag, partitions: this.#lanes.size }
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
      // Below its commit: the log was made anew.
      if (lane === undefined || offset < lane.committed) this.#begin({ topic, partition, offset })
      else {
        lane.readFrom(offset)
        this.#throttle(lane)
      }
    }
  }

  records(place: Place, records: readonly Arrived[], high: number): void {
    const lane = this.#lanes.get(nameOf(place))
    if (lane === undefined) return
    lane.high = high
    lane.add(records)
    this.#throttle(lane)
    this.#next(lane)
  }

  gap({ topic, partition }: Place, from: number, to: number): void {
    const lane = this.#lanes.get(nameOf({ topic, partition }))
    if (lane !== undefined && from === to && to < lane.end) this.#begin({ topic, partition, offset: to })
    this.#tools.log.warn('records are gone before they were read', { ...this.#name(), topic, partition, from, to })
  }

  /** Reads a partition that is new to it, or whose history is another one. */
  #begin({ topic, partition, offset }: Position): void {
    const name = nameOf({ topic, partition })
    const old = this.#lanes.get(name)
    this.#lanes.set(name, new Lane({ topic, partition }, offset, this.#handover()))
    if (old !== undefined) this.#leave(old)
  }

  state(fault: string | null): void {
    this.#readFault = fault
  }

  async close(): Promise<void> {
    this.#isClosed = true
    const lanes = [...this.#lanes.values()]
    for (const { handover } of lanes) handover.stop()
    await within(Promise.all(lanes.map(({ underWay }) => underWay)), CLOSE_MS, this.#tools.clock)
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
    lane.underWay = lane.handover
      .give(batch, count => this.#through(lane, batch, count))
      .then(() => {
        lane.isBusy = false
        if (!lane.handover.isClosed) this.#next(lane)
      })
  }

  /** So many of a batch's first records are done with. */
  #through(lane: Lane, batch: readonly Arrived[], count: number): void {
    if (count === 0 || this.#lanes.get(nameOf(lane.place)) !== lane) return
    lane.done = batch[count - 1]!.offset + 1
    this.#commitSoon()
  }

  #handover(): Handover {
    return new Handover(this.#deliver, this.#tools, { tally: this.#tally, replays: this.#replays, where: whereOf })
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

  #leave(lane: Lane): void {
    lane.handover.stop()
    // When the partition comes back, it comes to an empty lane.
    if (lane.isPaused) this.#reading!.resume(lane.place)
  }

  #name() {
    const { api, stream } = this.#tools
    return { api_id: api, stream }
  }
}

function nameOf({ topic, partition }: Place): string {
  return `${topic}:${partition}`
}

/** What a lane hands on is what a broker read. */
function whereOf(message: Message): object {
  const { topic, partition, offset } = message as Arrived
  return { topic, partition, offset }
}
