import { byteCount } from '../../config/duration.ts'
import { HttpClientInput } from '../../config/shape/stream.ts'
import type { Connector, ConnectorTools, Deliver, Input, InputKind, InputStatus } from '../connector.ts'
import type { Message, MessageHeaders } from '../message.ts'
import { Undelivered } from '../undelivered.ts'
import { Handover } from './handover.ts'
import {
  type Answer,
  type ClientOptions,
  checkClient,
  HttpRequests,
  limit,
  type Retries,
  retriesOf,
  timeoutOf
} from './httpRequests.ts'
import { Lines } from './lines.ts'
import { checkText, messageOf } from './outgoing.ts'

interface Options extends ClientOptions {
  readonly payload?: string
  readonly drop_empty_bodies?: boolean
  readonly stream?: {
    readonly enabled?: boolean
    readonly reconnect?: boolean
    readonly codec?: 'lines' | 'all-bytes'
    readonly max_buffer?: string | number
  }
}

const MOST_BUFFER = 1_000_000
/** Lines that are handed on at once. */
const BATCH = 500
/** Wait between two rounds of tries, unless `max_retry_backoff` is shorter. */
const ROUND_MS = 30_000
/** More failures than any wait grows with. */
const ROUNDS = 1000

/**
 * Fetches messages: one request after the other, each answer a message, at most one in `retry_period`; or one endless
 * answer whose lines are messages. More than `retries` failures in a row end a round; the next begins after 30 s at most.
 */
export const httpClientInput: InputKind = {
  name: 'http_client',
  shape: HttpClientInput,
  check(options, fault) {
    const given = options as Options
    checkClient(given, 'own', fault)
    if (given.payload !== undefined) checkText('/payload', given.payload, 'own', fault)
    if (given.payload && (given.verb ?? 'GET') === 'GET') fault('/payload', 'needs a verb other than GET')
    if (given.stream?.max_buffer !== undefined && byteCount(given.stream.max_buffer) < 1)
      fault('/stream/max_buffer', 'must be 1 or more')
  },
  open: (connector, deliver, tools) => new Fetcher(connector, deliver, tools)
}

class Fetcher implements Input {
  readonly #options: Options
  readonly #requests: HttpRequests
  readonly #tools: ConnectorTools
  readonly #handover: Handover
  readonly #retries: Retries
  readonly #most: number
  readonly #controllers = new Set<AbortController>()
  readonly #running: Promise<void>
  /** End answers that are being read. */
  readonly #closing = new Set<() => void>()
  #failures = 0
  #fault: string | null = null

  constructor({ options }: Connector, deliver: Deliver, tools: ConnectorTools) {
    this.#options = options as Options
    this.#requests = new HttpRequests(this.#options, 'GET', 1)
    this.#tools = tools
    this.#handover = new Handover(deliver, tools)
    this.#retries = retriesOf(this.#options)
    this.#most = byteCount(this.#options.stream?.max_buffer ?? MOST_BUFFER)
    this.#running = this.#run()
  }

  async #run(): Promise<void> {
    const { clock } = this.#tools
    const isEndless = this.#options.stream?.enabled ?? false
    const pace = this.#retries.wait(1)
    while (!this.#handover.isClosed) {
      const began = clock.now()
      try {
        if (isEndless) await this.#follow()
        else await this.#poll()
        this.#failures = 0
        this.#fault = null
        if (isEndless && this.#options.stream?.reconnect === false) return this.#ended()
        await this.#handover.pause(Math.max(0, pace - (clock.now() - began)))
      } catch (cause) {
        if (this.#handover.isClosed) return
        await this.#failed(cause)
      }
    }
  }

  #ended(): void {
    this.#fault = 'the answer has ended'
    this.#log('a source has ended', {})
  }

  async #failed(cause: unknown): Promise<void> {
    this.#failures++
    this.#fault = messageOf(cause)
    const isRoundOver = this.#failures > this.#retries.most
    if (this.#failures === 1 || isRoundOver)
      this.#log('a source cannot be read and is tried again', { failures: this.#failures, cause: messageOf(cause) })
    const wait = isRoundOver ? Math.min(ROUND_MS, this.#retries.wait(ROUNDS)) : this.#retries.wait(this.#failures)
    if (isRoundOver) this.#failures = 0
    await this.#handover.pause(wait)
  }

  /** @throws Undelivered */
  async #request(signal: AbortSignal): Promise<Answer> {
    const answer = await this.#requests.send(null, null, this.#options.payload || null, {}, signal)
    if (this.#retries.meaning(answer.status) === 'good') return answer
    await answer.body.dump().catch(() => {})
    throw new Undelivered('failed', `answered ${answer.status}`)
  }

  async #poll(): Promise<void> {
    const { signal, done } = limit(this.#tools.clock, timeoutOf(this.#options), this.#controllers)
    let message: Message | null
    try {
      const { type, body } = await this.#request(signal)
      message = messageFrom(await this.#whole(body), type)
    } finally {
      done()
    }
    if (message.value!.length > 0 || this.#options.drop_empty_bodies === false) await this.#handover.give([message])
  }

  /** @throws Undelivered: it is longer than the bound, or broke off */
  async #whole(body: Answer['body']): Promise<Buffer> {
    const chunks: Buffer[] = []
    let length = 0
    for await (const chunk of body as AsyncIterable<Buffer>) {
      length += chunk.length
      if (length > this.#most) throw new Undelivered('too_large', `the answer is longer than ${this.#most} bytes`)
      chunks.push(chunk)
    }
    return Buffer.concat(chunks)
  }

  async #follow(): Promise<void> {
    const head = limit(this.#tools.clock, timeoutOf(this.#options), this.#controllers)
    const { type, body } = await this.#request(head.signal).finally(head.done)
    // Without a bound in time: it is ended by `close`.
    const end = () => body.destroy()
    this.#closing.add(end)
    this.#failures = 0
    this.#fault = null
    try {
      if (this.#options.stream?.codec === 'all-bytes') {
        const message = messageFrom(await this.#whole(body), type)
        if (message.value!.length > 0 || this.#options.drop_empty_bodies === false) await this.#handover.give([message])
      } else await this.#lines(body, type)
    } finally {
      this.#closing.delete(end)
    }
  }

  async #lines(body: Answer['body'], type: string | null): Promise<void> {
    const lines = new Lines(this.#most)
    const give = async (all: readonly Buffer[]) => {
      for (let from = 0; from < all.length && !this.#handover.isClosed; from += BATCH)
        await this.#handover.give(all.slice(from, from + BATCH).map(line => messageFrom(line, type)))
    }
    let skipped = 0
    for await (const chunk of body as AsyncIterable<Buffer>) {
      await give(lines.take(chunk))
      if (lines.skipped > skipped)
        this.#log('lines that are too long are left out', { most: this.#most, count: lines.skipped })
      skipped = lines.skipped
    }
    const last = lines.end()
    if (last !== null) await give([last])
  }

  #log(what: string, fields: object): void {
    const { api, stream, log } = this.#tools
    log.warn(what, { api_id: api, stream, ...fields })
  }

  status(): InputStatus {
    const { dropped, redelivered } = this.#handover.tally
    return { dropped, redelivered, lag: 0, partitions: 0 }
  }

  fault(): string | null {
    return this.#fault ?? this.#handover.fault
  }

  async close(): Promise<void> {
    const closed = this.#handover.close(this.#running)
    for (const controller of this.#controllers) controller.abort(new Undelivered('unavailable', 'the stream has ended'))
    for (const end of this.#closing) end()
    await closed
    await this.#requests.close()
  }
}

function messageFrom(value: Buffer, type: string | null): Message {
  const headers: MessageHeaders = type === null ? [] : [['content-type', Buffer.from(type, 'latin1')]]
  return { key: null, value, headers }
}
