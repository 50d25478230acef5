import { HttpClientOutput } from '../../config/shape/stream.ts'
import type { Call } from '../call.ts'
import type { Connector, ConnectorTools, Output, OutputKind } from '../connector.ts'
import type { Message, Placed } from '../message.ts'
import { Undelivered } from '../undelivered.ts'
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

/** Webhooks: one request a message, tried again within the deadline. With `max_in_flight` 1 messages stay in order. */
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
  }

  async send(messages: readonly Message[], call: Call | null, deadline: number): Promise<readonly (Placed | null)[]> {
    let next = 0
    let failure: unknown = null
    const runner = async () => {
      this.#underWay++
      try {
        while (next < messages.length && failure === null) await this.#deliver(messages[next++]!, call, deadline)
      } catch (cause) {
        failure ??= cause
      } finally {
        this.#underWay--
      }
    }
    const runners = Math.min(messages.length, this.#most - this.#underWay)
    if (runners <= 0 && messages.length > 0) throw new Undelivered('busy', `${this.#most} requests are under way`)
    await Promise.all(Array.from({ length: runners }, runner))
    if (failure !== null) throw failure
    return messages.map(() => null)
  }

  /** Once a try may have arrived, a failure of a later one leaves it unknown. */
  async #deliver(message: Message, call: Call | null, deadline: number): Promise<void> {
    let isUnknown = false
    for (let failures = 1; ; failures++) {
      const failure = await this.#try(message, call, deadline)
      if (failure === null) return
      isUnknown ||= failure.reason === 'unknown'
      const wait = this.#retries.wait(failures)
      const isLast = failures > this.#retries.most || this.#tools.clock.now() + wait >= deadline || this.#isClosed
      if (failure.reason !== 'unavailable' && failure.reason !== 'unknown') throw failure
      if (isLast) throw isUnknown ? new Undelivered('unknown', failure.message, { cause: failure }) : failure
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
    for (const controller of this.#controllers) controller.abort(new Undelivered('unknown', 'the stream has ended'))
    await this.#requests.close()
  }
}

function carried({ headers }: Message): Record<string, string> {
  const pairs: Record<string, string> = {}
  for (const [name, value] of headers)
    if (CARRIED.includes(name.toLowerCase())) pairs[name.toLowerCase()] = headerText(value.toString('latin1'))
  return pairs
}
