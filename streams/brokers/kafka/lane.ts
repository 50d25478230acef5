import type { Compression, Produce } from '../../broker.ts'
import { Undelivered } from '../../undelivered.ts'
import { type Call, Part } from './call.ts'
import type { Cluster, Topic } from './cluster.ts'
import { numbers } from './codecs.ts'
import { codes, hasMoved, KafkaFault, reasonOf, textOf, undelivered } from './errors.ts'
import { type Identity, identify, isSequenceLost } from './identity.ts'
import type { Node } from './node.ts'
import { produceRequest, type Written, writtenOf } from './produceRequest.ts'
import { encodeBatch } from './recordsOut.ts'
import type { Room } from './room.ts'

/**
 * One request holds so much at most, whatever waits: its encoding and checksum hold up everything else meanwhile, some milliseconds. With
 * half of it, 16 callers of 100 messages of 1 KiB each wrote half as much; with nearly twice of it no more.
 */
const batchMessages = 1_000
const batchBytes = 512 << 10
/** So long a request may go unanswered before its connection is given up, ms; it is everybody's, so not when a caller's time is over. */
const silentMs = 10_000
/** What was surely not written is tried again after these times, in ms; a new leader is usually there by then. */
const pauses = [20, 50, 100, 200, 400, 800]

/**
 * Writes to one topic in one manner. One request is under way (to each leader); what comes meanwhile goes together in the next one: no
 * message waits for company, and the order holds. Nothing is repeated that may have been written, unless it is idempotent.
 */
export class Lane {
  /** Of what waits here or is under way. */
  readonly room: Room
  readonly #cluster: Cluster
  readonly #topic: string
  readonly #acks: number
  readonly #codec: number
  readonly #isIdempotent: boolean
  #queue: Call[] = []
  #isBusy = false
  #isClosed = false
  #askedAt = 0
  #identity: Identity | null = null

  constructor(
    cluster: Cluster,
    topic: string,
    acks: number,
    compression: Compression,
    isIdempotent: boolean,
    room: Room
  ) {
    this.room = room
    this.#cluster = cluster
    this.#topic = topic
    this.#acks = acks
    this.#codec = numbers[compression]
    this.#isIdempotent = isIdempotent
  }

  get isIdle(): boolean {
    return !this.#isBusy && this.#queue.length === 0
  }

  /** Why it is of no use to wait: the leader of one of its partitions is known to be down. Null: it may be tried. */
  closedTo({ messages }: Produce): Undelivered | null {
    const topic = this.#cluster.known(this.#topic)
    if (topic === null) return this.#cluster.fault()
    for (let i = 0; i < messages.length; i++) {
      const fault = this.#cluster.leader(topic, messages[i]!.partition)?.fault ?? null
      if (fault === null) continue
      // Another node may lead it by now.
      if (this.#cluster.clock.now() - this.#askedAt >= 1_000) {
        this.#askedAt = this.#cluster.clock.now()
        this.#cluster.refresh(this.#topic).catch(() => {})
      }
      return fault
    }
    return null
  }

  add(call: Call): void {
    this.#queue.push(call)
    if (!this.#isBusy) this.#next()
  }

  /** Lets go of those whose time is over while the request before them is under way. */
  forgetSettled(): void {
    if (this.#queue.some(({ isSettled }) => isSettled)) this.#queue = this.#queue.filter(({ isSettled }) => !isSettled)
  }

  close(): void {
    this.#isClosed = true
  }

  #next(): void {
    const calls = this.#take()
    this.#isBusy = calls.length > 0
    if (!this.#isBusy) return
    this.#write(calls)
      .catch((error: unknown) => {
        for (const call of calls) call.giveUp(textOf(error))
      })
      .finally(() => this.#next())
  }

  #take(): Call[] {
    const queue = this.#queue
    const calls: Call[] = []
    let messages = 0
    let bytes = 0
    let i = 0
    for (; i < queue.length; i++) {
      const call = queue[i]!
      if (call.isSettled) continue
      messages += call.what.messages.length
      bytes += call.size
      if (calls.length > 0 && (messages > batchMessages || bytes > batchBytes)) break
      calls.push(call)
    }
    this.#queue = i === queue.length ? [] : queue.slice(i)
    return calls
  }

  async #write(calls: readonly Call[]): Promise<void> {
    let parts = partsOf(calls)
    for (let attempt = 0; parts.length > 0; attempt++) {
      const { left, fault } = await this.#attempt(parts)
      parts = left
      if (parts.length === 0) return
      const pause = pauses[attempt] ?? 1_000
      const isLast = attempt >= pauses.length && !parts.some(({ isUnclear }) => isUnclear)
      if (isLast || this.#isClosed || this.#isWaitUseless(parts)) {
        for (const part of parts) this.#giveUp(part, fault ?? new Undelivered('unavailable', 'could not be written'))
        return
      }
      await new Promise<void>(resolve => this.#cluster.clock.after(pause, resolve))
    }
  }

  /** Nobody waits any more; or the leader is known to be down, so that waiting would only cost time. */
  #isWaitUseless(parts: readonly Part[]): boolean {
    if (parts.every(({ calls }) => calls.every(({ isSettled }) => isSettled))) return true
    // Of an idempotent part that may have been written the outcome is still to be found out.
    if (parts.some(({ isUnclear }) => isUnclear)) return false
    const topic = this.#cluster.known(this.#topic)
    if (topic === null) return this.#cluster.fault() !== null
    return parts.every(({ partition }) => (this.#cluster.leader(topic, partition)?.fault ?? null) !== null)
  }

  #giveUp(part: Part, fault: Undelivered): void {
    if (part.isUnclear) {
      // The sequence may be taken or not: under this identity the broker might take the next message for a repeat.
      this.#identity = null
      part.failed(new Undelivered('unknown', fault.message, { cause: fault }))
    } else part.failed(fault)
  }

  /** Tries all parts once; answers those that may be tried again. */
  async #attempt(given: readonly Part[]): Promise<{ left: Part[]; fault: Undelivered | null }> {
    const parts = given.map(part => (part.isUnclear ? part : part.withoutSettled())).filter(({ count }) => count > 0)
    if (parts.length === 0) return { left: [], fault: null }
    let topic: Topic
    try {
      topic = await this.#cluster.topic(this.#topic)
      const { length } = topic.leaders
      if (parts.some(({ partition }) => partition >= length)) topic = await this.#cluster.refresh(this.#topic)
      if (this.#isIdempotent) this.#identity ??= await identify(this.#cluster)
    } catch (error) {
      const fault = undelivered('unavailable', error)
      if (fault.reason === 'unavailable') return { left: parts, fault }
      for (const part of parts) this.#giveUp(part, fault)
      return { left: [], fault: null }
    }
    const byLeader = new Map<Node, Part[]>()
    const left: Part[] = []
    let fault: Undelivered | null = null
    for (const part of parts) {
      if (part.partition < 0 || part.partition >= topic.leaders.length) {
        this.#giveUp(part, new Undelivered('invalid', `there is no partition ${part.partition}`))
        continue
      }
      const leader = this.#cluster.leader(topic, part.partition)
      if (leader === null) {
        left.push(part)
        fault = new Undelivered('unavailable', `partition ${part.partition} has no leader`)
        continue
      }
      const same = byLeader.get(leader)
      if (same === undefined) byLeader.set(leader, [part])
      else same.push(part)
    }
    if (byLeader.size === 1) {
      for (const [node, parts] of byLeader) fault = (await this.#send(node, parts, left)) ?? fault
    } else {
      const faults = await Promise.all([...byLeader].map(([node, parts]) => this.#send(node, parts, left)))
      fault = faults.find(fault => fault !== null) ?? fault
    }
    if (left.length > 0) await this.#cluster.refresh(this.#topic).catch(() => {})
    return { left, fault }
  }

  /** One request. What may be tried again comes into `left`; the answer is why. */
  async #send(node: Node, parts: Part[], left: Part[]): Promise<Undelivered | null> {
    let isSent = false
    let answer: readonly Written[]
    try {
      const deadline = parts.reduce(
        (latest, { calls }) => calls.reduce((at, { what }) => Math.max(at, what.deadline), latest),
        0
      )
      const ready = node.shared('produce')
      const link = ready instanceof Promise ? await ready : ready
      // Who gave up while the connection was made must not find the message written.
      parts = parts.map(part => (part.isUnclear ? part : part.withoutSettled())).filter(({ count }) => count > 0)
      if (parts.length === 0) return null
      for (const part of parts) await this.#encode(part)
      // The broker tells when replicas are not as quick as this; its answer comes a little later.
      const timeout = Math.min(Math.max(1, deadline - this.#cluster.clock.now()), 30_000)
      const silent = Math.max(silentMs, timeout + 1_000)
      const request = produceRequest(this.#topic, this.#acks, timeout, parts)
      answer = writtenOf(
        await link.call('Produce', { acks: this.#acks, timeout, topicData: [] }, silent, request, () => {
          isSent = true
          for (const part of parts) part.sent()
        })
      )
    } catch (error) {
      const fault = undelivered(isSent ? 'unknown' : 'unavailable', error)
      if (isSent) node.suspect()
      const mayRetry = fault.reason === 'unavailable' || (isSent && this.#isIdempotent)
      for (const part of parts) {
        part.isUnclear ||= isSent
        if (mayRetry) left.push(part)
        else this.#giveUp(part, fault)
      }
      return fault
    }
    let fault: Undelivered | null = null
    for (const part of parts) {
      const written = answer.find(({ partition }) => partition === part.partition)
      fault = (await this.#answered(part, written, left)) ?? fault
    }
    return fault
  }

  async #answered(part: Part, written: Written | undefined, left: Part[]): Promise<Undelivered | null> {
    const code = written?.code ?? -1
    if (code === 0 || (code === codes.duplicateSequence && this.#isIdempotent)) {
      if (part.identity === this.#identity) this.#identity?.wrote(part.partition, part.count)
      const appended = written?.timestamp ?? -1
      part.written(this.#topic, code === 0 ? written!.offset : -1, appended >= 0 ? appended : part.timestamp)
      return null
    }
    const said = new KafkaFault(code, `topic ${this.#topic}`)
    const reason = reasonOf(code)
    // Whoever sent it is told no more than that.
    const text = reason === 'invalid' ? 'the topic does not take this message' : said.message
    const fault = new Undelivered(reason, text, { cause: said })
    if (fault.reason !== 'unknown' && !part.isUnclear) part.refused()
    const mayBeOther = reason === 'too_large' || (reason === 'invalid' && part.calls[0] !== part.calls.at(-1))
    if (mayBeOther && part.count > 1 && !part.isUnclear) {
      // Perhaps it is the batch that is too large, and no message in it; or another call's message is invalid. In order: the second half comes after the first.
      for (const half of part.halves()) await this.#halved(half)
      return null
    }
    if (isSequenceLost(code) && !part.isUnclear && this.#isIdempotent) {
      // The broker forgot who this is, or a message before this one was given up: a new name, and once more.
      this.#identity = null
      left.push(part)
      return undelivered('unavailable', fault)
    }
    if (hasMoved(code) || (fault.reason === 'unknown' && this.#isIdempotent)) {
      part.isUnclear ||= fault.reason === 'unknown'
      left.push(part)
      return undelivered('unavailable', new Undelivered('unavailable', fault.message, { cause: fault }))
    }
    part.isUnclear ||= fault.reason === 'unknown'
    this.#giveUp(part, fault)
    return null
  }

  /** Tried once only: a second try of one half could come behind the other. */
  async #halved(half: Part): Promise<void> {
    const left: Part[] = []
    let fault = new Undelivered('unavailable', `partition ${half.partition} has no leader`)
    try {
      const topic = await this.#cluster.topic(this.#topic)
      if (this.#isIdempotent) this.#identity ??= await identify(this.#cluster)
      const node = this.#cluster.leader(topic, half.partition)
      if (node === null) left.push(half)
      else fault = (await this.#send(node, [half], left)) ?? fault
    } catch (error) {
      left.push(half)
      fault = undelivered('unavailable', error)
    }
    for (const part of left) this.#giveUp(part, fault)
  }

  async #encode(part: Part): Promise<void> {
    // What may have been written is repeated as it was; anything else begins anew.
    if (part.isUnclear) return
    // Another part of this attempt has just given it up.
    if (this.#isIdempotent && this.#identity === null) throw new Undelivered('unavailable', 'no producer id')
    part.identity = this.#identity
    part.timestamp = this.#cluster.clock.now()
    const messages = part.calls.map(({ what }, i) => what.messages[part.indexes[i]!]!)
    part.encoded = await encodeBatch(
      messages,
      part.timestamp,
      this.#codec,
      this.#identity?.origin(part.partition) ?? null
    )
  }
}

function partsOf(calls: readonly Call[]): Part[] {
  const parts = new Map<number, Part>()
  for (const call of calls) {
    const { messages } = call.what
    for (let i = 0; i < messages.length; i++) {
      const { partition } = messages[i]!
      let part = parts.get(partition)
      if (part === undefined) {
        part = new Part(partition)
        parts.set(partition, part)
      }
      part.add(call, i)
    }
  }
  return [...parts.values()]
}
