import type { Log } from '../../../config/world.ts'
import type { Joining, Place, Position, Taker } from '../../broker.ts'
import { read } from './batches.ts'
import type { Cluster } from './cluster.ts'
import { codes, hasMoved, KafkaFault, textOf } from './errors.ts'
import { type Fetched, fetchedOf } from './fetchRequest.ts'
import { placeName } from './groupOffsets.ts'
import type { Link } from './link.ts'
import type { Node } from './node.ts'
import { newest, offsetsAt, oldest } from './offsets.ts'

/** How long a broker waits for records to come; what is resumed or added meanwhile waits as long. */
const maxWaitMs = 200
/** Beyond that wait: a broker that does not answer then is asked over another connection. */
const patienceMs = 10_000
/** One answer is read in one go, which holds up everything else. A single batch that is larger comes all the same. */
const partitionBytes = 1 << 20
const answerBytes = 4 << 20

interface Slot {
  readonly topic: string
  readonly partition: number
  /** The next one to read. */
  offset: number
  /** Read from this node while it is the nearer one; -1: from the leader. */
  nearer: number
  /** Offset of a batch that could not be read once; the second time it is passed over. */
  broken: number
  failures: number
  /** Not asked as long as it has a mark. */
  parked: symbol | null
  isGone: boolean
}

/** Reads partitions from their positions, each from the node that leads it, until they are taken away. Survives whatever nodes do. */
export class Fetching {
  readonly #cluster: Cluster
  readonly #log: Log
  readonly #isCommitted: boolean
  readonly #rackId: string
  readonly #to: Taker
  /** The positions are others than were told. */
  readonly #moved: () => void
  #slots: Slot[] = []
  readonly #paused = new Set<string>()
  /** One request at a time and node; with its connection. */
  readonly #loops = new Set<Node>()
  readonly #links = new Map<Node, Link>()
  readonly #timers = new Set<() => void>()
  #turn = 0
  #fault: string | null = null
  #isClosed = false

  constructor(cluster: Cluster, log: Log, how: Pick<Joining, 'isolation' | 'rackId'>, to: Taker, moved: () => void) {
    this.#cluster = cluster
    this.#log = log
    this.#isCommitted = how.isolation === 'read_committed'
    this.#rackId = how.rackId
    this.#to = to
    this.#moved = moved
  }

  positions(): Position[] {
    return this.#slots.map(({ topic, partition, offset }) => ({ topic, partition, offset }))
  }

  /** Reads these from now on, and nothing else. What is under way of others is dropped. */
  assign(positions: readonly Position[]): void {
    for (const slot of this.#slots) slot.isGone = true
    this.#slots = []
    this.add(positions)
  }

  add(positions: readonly Position[]): void {
    for (const { topic, partition, offset } of positions) {
      this.#slots.push({ topic, partition, offset, nearer: -1, broken: -1, failures: 0, parked: null, isGone: false })
    }
    this.#wake()
  }

  pause(place: Place): void {
    this.#paused.add(placeName(place))
  }

  resume(place: Place): void {
    if (this.#paused.delete(placeName(place))) this.#wake()
  }

  /** At once: nothing is told after this. */
  close(): void {
    this.#isClosed = true
    for (const cancel of this.#timers) cancel()
    for (const slot of this.#slots) slot.isGone = true
    for (const link of this.#links.values()) link.close()
  }

  /** Tells it once. */
  fault(fault: string | null): void {
    if (this.#isClosed || fault === this.#fault) return
    this.#fault = fault
    this.#to.state(fault)
  }

  #wake(): void {
    if (this.#isClosed) return
    const lost = new Set<string>()
    for (const slot of this.#slots) {
      if (slot.parked !== null || this.#paused.has(placeName(slot))) continue
      const node = this.#nodeOf(slot)
      if (node === null) lost.add(slot.topic)
      else if (!this.#loops.has(node)) {
        this.#loops.add(node)
        void this.#loop(node)
      }
    }
    for (const topic of lost) this.#find(topic)
  }

  #nodeOf(slot: Slot): Node | null {
    const nearer = slot.nearer < 0 ? null : this.#cluster.node(slot.nearer)
    if (nearer !== null && nearer.fault === null) return nearer
    const topic = this.#cluster.seen(slot.topic)
    return topic === null ? null : this.#cluster.leader(topic, slot.partition)
  }

  /** Asks who leads a topic's partitions. */
  #find(name: string): void {
    const slots = this.#slots.filter(({ topic }) => topic === name)
    const release = this.#park(slots)
    const found = (fault: string | null) => {
      const lost = slots.filter(slot => fault !== null || this.#nodeOf(slot) === null)
      if (lost.length > 0) this.#stand(fault ?? `topic ${name} has no leader`, lost, 5_000)
      release()
    }
    this.#cluster.refresh(name).then(
      () => found(null),
      (error: unknown) => found(textOf(error))
    )
  }

  /** These stand still for some time, longer each time: at least 100 ms, at most as told. */
  #stand(fault: string, slots: readonly Slot[], mostMs: number): void {
    if (this.#isClosed || slots.every(({ isGone }) => isGone)) return
    let failures = 0
    for (const slot of slots) failures = Math.max(failures, ++slot.failures)
    if (failures > 1) this.fault(fault)
    const release = this.#park(slots)
    const cancel = this.#cluster.clock.after(Math.min(mostMs, 50 * 2 ** Math.min(failures, 10)), () => {
      this.#timers.delete(cancel)
      release()
    })
    this.#timers.add(cancel)
  }

  /** These are not asked until the answer is called, unless they are parked anew meanwhile. */
  #park(slots: readonly Slot[]): () => void {
    const mark = Symbol()
    for (const slot of slots) slot.parked = mark
    return () => {
      for (const slot of slots) if (slot.parked === mark) slot.parked = null
      this.#wake()
    }
  }

  async #loop(node: Node): Promise<void> {
    try {
      for (;;) {
        const slots = this.#slots.filter(
          slot => slot.parked === null && !this.#paused.has(placeName(slot)) && this.#nodeOf(slot) === node
        )
        if (slots.length === 0 || this.#isClosed) break
        try {
          await this.#fetch(node, slots)
        } catch (error) {
          this.#failed(node, slots, textOf(error))
        }
      }
    } finally {
      this.#loops.delete(node)
      this.#wake()
    }
  }

  #failed(node: Node, slots: readonly Slot[], fault: string): void {
    this.#links.get(node)?.close()
    this.#links.delete(node)
    for (const slot of slots) slot.nearer = -1
    // To ask a node that is known to be down costs nothing, so that is done every second.
    this.#stand(fault, slots, 1_000)
    if (this.#isClosed) return
    for (const topic of new Set(slots.map(({ topic }) => topic))) this.#cluster.refresh(topic).catch(() => {})
  }

  async #fetch(node: Node, slots: readonly Slot[]): Promise<void> {
    let link = this.#links.get(node)
    if (link?.isReady !== true) {
      link = await node.own()
      this.#links.set(node, link)
      if (this.#isClosed) return link.close()
    }
    // Only the first batch of an answer may be larger than the bounds: each partition is first in its turn.
    const first = this.#turn++ % slots.length
    const topics = [...slots.slice(first), ...slots.slice(0, first)].map(({ topic, partition, offset }) => ({
      topic,
      partitions: [{ partition, fetchOffset: `${offset}`, maxBytes: partitionBytes }]
    }))
    const asked = {
      maxWaitTime: maxWaitMs,
      minBytes: 1,
      maxBytes: answerBytes,
      isolationLevel: this.#isCommitted ? 1 : 0,
      rackId: this.#rackId,
      topics
    }
    const own = { decode: fetchedOf, isUnchecked: true }
    const answer = await link.call<Fetched[]>('Fetch', asked, maxWaitMs + patienceMs, own)
    const moved: Slot[] = []
    for (const fetched of answer) {
      const slot = slots.find(({ topic, partition }) => topic === fetched.topic && partition === fetched.partition)
      if (slot === undefined || slot.isGone) continue
      if (fetched.code === 0) await this.#take(slot, fetched)
      else await this.#refused(slot, fetched.code, moved)
    }
    if (moved.length > 0) {
      // Whoever led them may not be known to everybody yet.
      this.#stand('its leader has changed', moved, 1_000)
      for (const topic of new Set(moved.map(({ topic }) => topic))) this.#cluster.refresh(topic).catch(() => {})
    } else if (this.#fault !== null && this.#slots.every(({ failures }) => failures === 0)) this.fault(null)
  }

  async #take(slot: Slot, fetched: Fetched): Promise<void> {
    slot.failures = 0
    if (fetched.nearer >= 0 && fetched.nearer !== slot.nearer) {
      slot.nearer = fetched.nearer
      this.#wake()
    }
    if (fetched.batches.length === 0) return
    const all = await read(fetched, slot.offset, this.#isCommitted)
    for (const found of all) {
      if (slot.isGone || this.#isClosed) return
      if ('fault' in found) {
        this.#passOver(slot, found)
        continue
      }
      slot.offset = found.to
      if (found.records.length > 0) this.#to.records(slot, found.records, Math.max(fetched.high, found.to))
    }
  }

  /** A batch that cannot be read even when it is fetched again would hold up its partition for ever. */
  #passOver(slot: Slot, { fault, from, to }: { fault: string; from: number; to: number }): void {
    if (slot.broken !== from) {
      slot.broken = from
      return
    }
    const { topic, partition } = slot
    this.#log.error('kafka records that cannot be read are passed over', { topic, partition, from, to, reason: fault })
    slot.offset = to
    this.#to.gap(slot, from, to)
  }

  async #refused(slot: Slot, code: number, moved: Slot[]): Promise<void> {
    if (code === codes.offsetOutOfRange) {
      // A follower may be behind; the leader decides.
      if (slot.nearer >= 0) slot.nearer = -1
      else await this.#reset(slot)
      return
    }
    slot.nearer = -1
    if (hasMoved(code)) {
      moved.push(slot)
      return
    }
    this.#stand(textOf(new KafkaFault(code, `topic ${slot.topic}`)), [slot], 30_000)
  }

  /** Its position is not there: what lies below the oldest record is gone. */
  async #reset(slot: Slot): Promise<void> {
    const { topic, partition } = slot
    const [low, high] = await Promise.all([
      offsetsAt(this.#cluster, topic, [partition], oldest).then(offsets => offsets.get(partition) ?? 0),
      offsetsAt(this.#cluster, topic, [partition], newest).then(offsets => offsets.get(partition) ?? 0)
    ])
    if (slot.isGone || this.#isClosed) return
    const from = slot.offset
    if (from < low) {
      this.#log.warn('kafka records are gone', { topic, partition, from, to: low })
      slot.offset = low
      this.#to.gap(slot, from, low)
    } else if (from > high) {
      // The topic was made anew, or its end was lost: it is another history.
      this.#log.warn('kafka partition ends before the position', { topic, partition, position: from, end: high })
      slot.offset = low
      this.#to.gap(slot, low, low)
      this.#moved()
    }
  }
}
