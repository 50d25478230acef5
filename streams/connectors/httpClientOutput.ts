import { HttpClientOutput } from '../../config/shape/stream.ts'
import type { Call } from '../call.ts'
import type { Connector, ConnectorTools, Output, OutputKind } from '../connector.ts'
import type { Arrived, Message, Placed } from '../message.ts'
import { seldom } from '../seldom.ts'
import { type Fate, Undelivered } from '../undelivered.ts'
import {
  type ClientOptions,
  checkClient,
  HttpRequests,
  limit,
  type Retries,
  retriesOf,
  timeoutOf
} from './httpRequests.ts'
import { headerText } from './outgoing.ts'

interface Options extends ClientOptions {
  readonly max_in_flight?: number
}

/** Headers of a message that go along; others are its own matter. */
const CARRIED = ['content-type', 'traceparent', 'tracestate']
/** Of an answer, which nobody reads. */
const MOST_ANSWER = 65_536

/**
 * Webhooks: one request a message, tried again within the deadline. With `max_in_flight` 1 messages stay in order. When all
 * requests are under way, one with a caller is refused ('busy'), and those of sources wait for their turn.
 */
export const httpClientOutput: OutputKind = {
  name: 'http_client',
  shape: HttpClientOutput,
  check(options, fault) {
    const given = options as Options
    checkClient(given, 'of a request', fault)
    if (given.verb === 'GET' || given.verb === 'HEAD') fault('/verb', 'has no body, which the message would be')
  },
  open: (connector, tools) => new Webhook(connector, tools)
}

class Webhook implements Output {
  readonly #requests: HttpRequests
  readonly #tools: ConnectorTools
  readonly #retries: Retries
  readonly #timeoutMs: number
  readonly #most: number
  readonly #controllers = new Set<AbortController>()
  /** Tries that wait for their time. */
  readonly #waits = new Set<() => void>()
  /** Messages that wait until a request may begin, in their order. */
  readonly #turns = new Set<(isMine: boolean) => void>()
  readonly #refused: (why: string, where: Partial<Arrived>) => void
  #underWay = 0
  #fault: string | null = null
  #isClosed = false

  constructor({ options }: Connector, tools: ConnectorTools) {
    const given = options as Options
    this.#most = given.max_in_flight ?? 64
    this.#requests = new HttpRequests(given, 'POST', this.#most)
    this.#tools = tools
    this.#retries = retriesOf(given)
    this.#timeoutMs = timeoutOf(given)
    const { log, clock, api, stream } = tools
    this.#refused = seldom(log, clock, 'webhook does not take a message, which is tried again', { api_id: api, stream })
  }

  async send(messages: readonly Message[], call: Call | null, deadline: number): Promise<readonly (Placed | null)[]> {
    if (messages.length === 0) return []
    const free = call === null ? this.#most : this.#turns.size > 0 ? 0 : this.#most - this.#underWay
    if (free <= 0) throw this.#busy()
    // A source offers late ones again: better than that they are cut off, and come twice.
    const last =
      call === null ? deadline - Math.min(this.#timeoutMs, (deadline - this.#tools.clock.now()) / 4) : deadline
    const fates: Fate[] = new Array(messages.length).fill(undefined)
    let next = 0
    let failure: Undelivered | null = null
    const runner = async () => {
      while (next < messages.length && failure === null) {
        const i = next++
        const fate = await this.#inTurn(messages[i]!, call, last, deadline)
        fates[i] = fate
        // What the other side ended holds nothing up.
        if (fate !== null && fate.reason !== 'rejected') failure ??= fate
      }
    }
    await Promise.all(Array.from({ length: Math.min(messages.length, free) }, runner))
    const bad = failure ?? fates.find(fate => fate !== null)
    if (!bad) return messages.map(() => null)
    throw messages.length === 1 ? bad : new Undelivered(bad.reason, bad.message, { cause: bad, each: fates })
  }

  /** @param last milliseconds since the epoch: then it does not begin any more */
  async #inTurn(message: Message, call: Call | null, last: number, deadline: number): Promise<Undelivered | null> {
    if (this.#underWay < this.#most && this.#turns.size === 0) this.#underWay++
    else if (!(await this.#turn(last))) return this.#busy()
    try {
      return this.#tools.clock.now() > last ? this.#busy() : await this.#deliver(message, call, deadline)
    } finally {
      const [following] = this.#turns
      if (following === undefined) this.#underWay--
      else following(true)
    }
  }

  /** Waits for another request to end, and takes its place. False: there was no time for that. */
  #turn(last: number): Promise<boolean> {
    return new Promise(resolve => {
      const { clock } = this.#tools
      const turn = (isMine: boolean) => {
        cancel()
        this.#turns.delete(turn)
        resolve(isMine)
      }
      const cancel = clock.after(Math.max(1, last - clock.now()), () => turn(false))
      this.#turns.add(turn)
    })
  }

  #busy(): Undelivered {
    return new Undelivered('busy', `${this.#most} requests are under way`)
  }

  /** Once a try may have arrived, a failure of a later one leaves it unknown. Null: delivered. */
  async #deliver(message: Message, call: Call | null, deadline: number): Promise<Undelivered | null> {
    let isUnknown = false
    for (let failures = 1; ; failures++) {
      const failure = await this.#try(message, call, deadline)
      if (failure === null || (failure.reason !== 'unavailable' && failure.reason !== 'unknown')) return failure
      isUnknown ||= failure.reason === 'unknown'
      const wait = this.#retries.wait(failures)
      const isLast = failures > this.#retries.most || this.#tools.clock.now() + wait >= deadline || this.#isClosed
      // Without a connection a caller hears at once that it is safe to try again, instead of waiting for a dead webhook.
      if (isLast || (call !== null && isUnsent(failure)))
        return isUnknown ? new Undelivered('unknown', failure.message, { cause: failure }) : failure
      // A caller is told; of a source's message nobody would hear until its tries are over.
      if (call === null) this.#refused(failure.message, whereOf(message))
      await this.#wait(wait)
    }
  }

  async #try(message: Message, call: Call | null, deadline: number): Promise<Undelivered | null> {
    if (this.#isClosed) return new Undelivered('unavailable', 'the stream has ended')
    const { clock } = this.#tools
    const { signal, done } = limit(
      clock,
      Math.min(this.#timeoutMs, Math.max(1, deadline - clock.now())),
      this.#controllers
    )
    try {
      const { status, body } = await this.#requests.send(message, call, message.value, carried(message), signal)
      // Its status says it all: what breaks off behind it changes nothing.
      await body.dump({ limit: MOST_ANSWER, signal }).catch(() => {})
      const failure = this.#failureOf(status)
      this.#fault = failure?.message ?? null
      return failure
    } catch (cause) {
      const failure = cause instanceof Undelivered ? cause : new Undelivered('unknown', String(cause), { cause })
      this.#fault = failure.message
      return failure
    } finally {
      done()
    }
  }

  #failureOf(status: number): Undelivered | null {
    const meaning = this.#retries.meaning(status)
    if (meaning === 'good') return null
    // 500 tells nothing of what was done before it; these tell that nothing was.
    if (meaning === 'dropped') return new Undelivered('rejected', `answered ${status}`)
    const reason = meaning === 'bad' ? 'failed' : status === 503 || status < 500 ? 'unavailable' : 'unknown'
    return new Undelivered(reason, `answered ${status}`)
  }

  #wait(ms: number): Promise<void> {
    return new Promise(resolve => {
      const end = () => {
        cancel()
        this.#waits.delete(end)
        resolve()
      }
      const cancel = this.#tools.clock.after(ms, end)
      this.#waits.add(end)
    })
  }

  fault(): string | null {
    return this.#fault
  }

  async close(): Promise<void> {
    this.#isClosed = true
    for (const end of [...this.#waits]) end()
    for (const turn of [...this.#turns]) turn(false)
    for (const controller of this.#controllers) controller.abort(new Undelivered('unknown', 'the stream has ended'))
    await this.#requests.close()
  }
}

/** No connection could be made: there was no answer that said so. */
function isUnsent({ reason, cause }: Undelivered): boolean {
  return reason === 'unavailable' && cause !== undefined
}

function carried({ headers }: Message): Record<string, string> {
  const pairs: Record<string, string> = {}
  for (const [name, value] of headers)
    if (CARRIED.includes(name.toLowerCase())) pairs[name.toLowerCase()] = headerText(value.toString('latin1'))
  return pairs
}

/** Of one that a broker brought. */
function whereOf({ topic, partition, offset }: Message & Partial<Arrived>): Partial<Arrived> {
  return topic === undefined ? {} : { topic, partition: partition!, offset: offset! }
}
