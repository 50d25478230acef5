import { Agent, type Dispatcher } from 'undici'
import { streamMs } from '../../config/duration.ts'
import type { Clock } from '../../config/world.ts'
import type { Call } from '../call.ts'
import type { Fault } from '../connector.ts'
import type { Message } from '../message.ts'
import { type Template, template } from '../processors/template.ts'
import { type Reason, Undelivered } from '../undelivered.ts'
import type { Tls } from './credentials.ts'
import { checkSpan } from './kafkaOptions.ts'
import {
  addressOf,
  checkHeaders,
  checkUrl,
  checkUrlTls,
  headerText,
  isLinkLocal,
  messageOf,
  safeLookup,
  type Texts,
  templates,
  tlsOptions
} from './outgoing.ts'

/** What both sides of `http_client` share: their options, and one request. */

export interface ClientOptions {
  readonly url: string
  readonly verb?: string
  readonly headers?: Readonly<Record<string, string>>
  readonly timeout?: string
  readonly retry_period?: string
  readonly max_retry_backoff?: string
  readonly retries?: number
  readonly backoff_on?: readonly number[]
  readonly drop_on?: readonly number[]
  readonly successful_on?: readonly number[]
  readonly tls?: Tls
}

/** What an answer's status means. `later`: the same may succeed another time; `dropped`: the message ends here. */
export type Meaning = 'good' | 'bad' | 'later' | 'dropped'

export interface Retries {
  readonly most: number
  /** Milliseconds before the next try, after so many that failed. */
  wait(failures: number): number
  meaning(status: number): Meaning
}

export function checkClient(given: ClientOptions, texts: Texts, fault: Fault): void {
  checkUrl(given.url, ['http:', 'https:'], texts, fault)
  checkHeaders(given.headers ?? {}, texts, fault)
  checkUrlTls(given.tls, given.url, fault)
  if (given.verb !== undefined && (!/^[A-Z]{1,32}$/.test(given.verb) || /^(CONNECT|TRACE)$/.test(given.verb)))
    fault('/verb', 'is no method that can be sent')
  for (const name of ['timeout', 'retry_period', 'max_retry_backoff'] as const)
    checkSpan(`/${name}`, given[name], fault)
}

export function retriesOf(given: ClientOptions): Retries {
  const { backoff_on = [429], drop_on = [], successful_on = [] } = given
  const first = streamMs(given.retry_period ?? '1s')
  const longest = Math.max(first, streamMs(given.max_retry_backoff ?? '300s'))
  return {
    most: given.retries ?? 3,
    wait: failures => Math.min(longest, first * 2 ** Math.min(30, failures - 1)),
    meaning(status) {
      if (drop_on.includes(status)) return 'dropped'
      if (successful_on.includes(status)) return 'good'
      if (backoff_on.includes(status) || status >= 500) return 'later'
      return status >= 200 && status < 300 ? 'good' : 'bad'
    }
  }
}

export function timeoutOf(given: ClientOptions): number {
  return streamMs(given.timeout ?? '5s')
}

export interface Answer {
  readonly status: number
  readonly type: string | null
  readonly body: Dispatcher.ResponseData['body']
}

/** Sends requests to one host, over connections that it keeps. Redirects are answers like others. */
export class HttpRequests {
  readonly #agent: Agent
  readonly #url: Template
  readonly #verb: string
  readonly #headers: readonly (readonly [string, Template])[]

  constructor(given: ClientOptions, verb: string, connections: number) {
    this.#url = template(given.url)
    this.#verb = given.verb ?? verb
    this.#headers = templates(given.headers ?? {})
    this.#agent = new Agent({
      connections,
      pipelining: 1,
      connect: { timeout: timeoutOf(given), lookup: safeLookup, ...tlsOptions(given.tls) },
      // Timed from outside: what may last how long differs.
      headersTimeout: 0,
      bodyTimeout: 0
    })
  }

  /**
   * @param own headers that count where the options name none
   * @throws Undelivered: 'unavailable' when it was surely not sent
   */
  async send(
    message: Message | null,
    call: Call | null,
    body: Buffer | string | null,
    own: Readonly<Record<string, string>>,
    signal: AbortSignal
  ): Promise<Answer> {
    const { origin, hostname, pathname, search } = addressOf(this.#url, call)
    if (isLinkLocal(hostname)) throw new Undelivered('misconfigured', `${hostname} is a link-local address`)
    const headers: Record<string, string> = { ...own }
    for (const [name, text] of this.#headers) {
      for (const other of Object.keys(headers)) if (other.toLowerCase() === name.toLowerCase()) delete headers[other]
      headers[name] = headerText(text(message, call))
    }
    try {
      const {
        statusCode,
        headers: got,
        body: answer
      } = await this.#agent.request({
        origin,
        path: pathname + search,
        method: this.#verb as Dispatcher.HttpMethod,
        headers,
        body,
        signal
      })
      const type = got['content-type']
      return { status: statusCode, type: typeof type === 'string' ? type : null, body: answer }
    } catch (cause) {
      throw cause instanceof Undelivered ? cause : new Undelivered(reasonOf(cause), messageOf(cause), { cause })
    }
  }

  close(): Promise<void> {
    return this.#agent.destroy()
  }
}

/** Before a connection stands nothing can have arrived. */
const UNSENT =
  /^(ECONNREFUSED|ENOTFOUND|EAI_AGAIN|EHOSTUNREACH|ENETUNREACH|EADDRNOTAVAIL|UND_ERR_CONNECT_TIMEOUT|CERT_|ERR_TLS_|ERR_SSL_|DEPTH_ZERO_|SELF_SIGNED_|UNABLE_TO_)/

function reasonOf(cause: unknown): Reason {
  if (cause instanceof AggregateError)
    return cause.errors.every(one => reasonOf(one) === 'unavailable') ? 'unavailable' : 'unknown'
  const { code } = cause as { code?: unknown }
  return typeof code === 'string' && UNSENT.test(code) ? 'unavailable' : 'unknown'
}

/** A signal that is raised after so long, or by `cancel`; `done` ends the waiting. */
export function limit(clock: Clock, ms: number, controllers: Set<AbortController>) {
  const controller = new AbortController()
  controllers.add(controller)
  const stop = clock.after(ms, () =>
    controller.abort(new Undelivered('unknown', `no answer within ${Math.round(ms)} ms`))
  )
  return {
    signal: controller.signal,
    done() {
      stop()
      controllers.delete(controller)
    }
  }
}
