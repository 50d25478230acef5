import type { Produce } from '../../broker.ts'
import type { Placed } from '../../message.ts'
import { Undelivered } from '../../undelivered.ts'
import { Call } from './call.ts'
import type { Cluster } from './cluster.ts'
import { Lane } from './lane.ts'
import { closedFault } from './node.ts'
import { Room } from './room.ts'

/** Lanes that nobody used go when there are so many. */
const mostLanes = 1_000
/** What waits or is under way at most; above it a call is refused at once. */
const laneMessages = 20_000
const laneBytes = 32 << 20
const clusterBytes = 64 << 20
/** Deadlines are kept to this, ms: many calls end at nearly the same time. */
const stepMs = 5

/** All that is written to one cluster: a lane for each topic and manner of writing. */
export class Producing {
  readonly #cluster: Cluster
  readonly #lanes = new Map<string, Lane>()
  readonly #calls = new Set<Call>()
  readonly #room = new Room(Number.POSITIVE_INFINITY, clusterBytes)
  #isClosed = false
  /** The earliest deadline of all calls is looked at, not each by a timer of its own. */
  #alarm: { readonly at: number; readonly cancel: () => void } | null = null
  #drained: (() => void) | null = null

  constructor(cluster: Cluster) {
    this.#cluster = cluster
  }

  produce(what: Produce): Promise<readonly Placed[]> {
    const { messages, deadline } = what
    if (messages.length === 0) return Promise.resolve([])
    if (this.#isClosed) return Promise.reject(closedFault())
    if (deadline <= this.#cluster.clock.now())
      return Promise.reject(new Undelivered('unavailable', 'no time was left to send it'))
    const lane = this.#lane(what)
    const fault = lane.closedTo(what)
    if (fault !== null) return Promise.reject(fault)
    const call = new Call(what, lane, this.#settled)
    if (!lane.room.holds(call) || !this.#room.holds(call))
      return Promise.reject(new Undelivered('busy', 'too many messages wait to be written'))
    this.#calls.add(call)
    lane.room.add(call, 1)
    this.#room.add(call, 1)
    this.#watch(deadline)
    lane.add(call)
    return call.promise
  }

  /** Resolves when all that was called has been answered, at its deadline at the latest. */
  async close(): Promise<void> {
    this.#isClosed = true
    if (this.#calls.size > 0) await new Promise<void>(resolve => (this.#drained = resolve))
    this.#alarm?.cancel()
    for (const lane of this.#lanes.values()) lane.close()
  }

  readonly #settled = (call: Call): void => {
    this.#calls.delete(call)
    call.lane.room.add(call, -1)
    this.#room.add(call, -1)
    if (this.#calls.size > 0) return
    this.#drained?.()
  }

  #lane({ topic, acks, compression, isIdempotent }: Produce): Lane {
    const name = `${topic} ${acks} ${compression} ${isIdempotent}`
    let lane = this.#lanes.get(name)
    if (lane === undefined) {
      for (const [name, lane] of this.#lanes) if (this.#lanes.size >= mostLanes && lane.isIdle) this.#lanes.delete(name)
      const room = new Room(laneMessages, laneBytes)
      lane = new Lane(this.#cluster, topic, isIdempotent || acks === 'all' ? -1 : 1, compression, isIdempotent, room)
      this.#lanes.set(name, lane)
    }
    return lane
  }

  #watch(at: number): void {
    if (this.#alarm !== null && this.#alarm.at <= at) return
    this.#alarm?.cancel()
    this.#alarm = { at, cancel: this.#cluster.clock.after(Math.max(1, at - this.#cluster.clock.now()), this.#expire) }
  }

  readonly #expire = (): void => {
    this.#alarm = null
    const now = this.#cluster.clock.now()
    const late = new Set<Call['lane']>()
    let next = Number.POSITIVE_INFINITY
    for (const call of this.#calls) {
      if (call.what.deadline > now) {
        next = Math.min(next, call.what.deadline)
        continue
      }
      const { topic, messages } = call.what
      if (call.isSent) this.#cluster.suspect(topic, messages[0]!.partition)
      call.giveUp('not acknowledged in time')
      late.add(call.lane)
    }
    for (const lane of late) lane.forgetSettled()
    if (next !== Number.POSITIVE_INFINITY) this.#watch(Math.max(next, now + stepMs))
  }
}
