import type { Socket } from 'node:net'
import type { Clock } from '../../../config/world.ts'
import { isLinkLocal, linkLocalFault } from '../../linkLocal.ts'
import { Undelivered } from '../../undelivered.ts'
import { type Address, type Client, openSocket } from './client.ts'
import {
  apiKeys,
  type Connection,
  KafkaConnection,
  lookup,
  requests,
  type Versions,
  type WireRequest
} from './library.ts'

export type Api =
  | 'Produce'
  | 'ListOffsets'
  | 'Fetch'
  | 'Metadata'
  | 'OffsetCommit'
  | 'OffsetFetch'
  | 'GroupCoordinator'
  | 'JoinGroup'
  | 'Heartbeat'
  | 'LeaveGroup'
  | 'SyncGroup'
  | 'CreateTopics'
  | 'InitProducerId'

/** Replaces parts of how kafkajs writes and reads one request. */
export interface Own {
  /** The request behind its head, in pieces that are written as they are: kafkajs would copy them twice. */
  pieces?(apiVersion: number): readonly Buffer[]
  decode?(raw: Buffer, apiVersion: number): unknown
  /** Instead of the check that throws the first error code of an answer. */
  readonly isUnchecked?: boolean
}

/** The connection was lost, did not come about, or did not answer in time. */
export class LinkLost extends Error {
  /** Of the system or of TLS. */
  readonly code: string
  constructor(code: string, message: string) {
    super(message)
    this.code = code
  }
}

const turnedAway = 'ETURNEDAWAY'

/** One connection to one node: opened once, used until it breaks, then thrown away. */
export class Link {
  readonly #clock: Clock
  readonly #connection: Connection
  readonly #host: string
  readonly #name: string
  readonly #clientId: string
  readonly #hint: string
  readonly #onLost: (link: Link) => void
  #socket: Socket | null = null
  #opening: Promise<void> | null = null
  #lost: LinkLost | null = null
  #isReady = false
  /** More than its versions: it takes what is sent on this connection. */
  #hasAnswered = false
  readonly #isLoggedIn: boolean
  #isConnected = false
  /** Who waits for an answer. */
  readonly #waiting = new Set<(error: LinkLost) => void>()

  constructor(client: Client, { host, port }: Address, clock: Clock, onLost: (link: Link) => void) {
    this.#clock = clock
    this.#host = host
    this.#name = `${host}:${port}`
    const asks = client.tls === null ? 'does it ask for TLS or a login?' : 'does it speak TLS, does it ask for a login?'
    this.#isLoggedIn = client.sasl !== null
    this.#clientId = client.clientId
    this.#hint = `closed the connection: ${client.sasl === null ? asks : asks.replace('a login', 'another login')}`
    this.#onLost = onLost
    this.#connection = new KafkaConnection({
      host,
      port,
      ssl: client.tls,
      sasl: client.sasl === null ? null : { ...client.sasl },
      clientId: client.clientId,
      logger: client.logger,
      // Every wait is bounded by `#within`: kafkajs would look at all requests ten times a second, and knows no shorter time than its own.
      connectionTimeout: 600_000,
      requestTimeout: 600_000,
      enforceRequestTimeout: false,
      socketFactory: to => {
        const socket = openSocket(to)
        this.#socket = socket
        socket.once('connect', () => {
          this.#isConnected = true
        })
        socket.on('error', (error: NodeJS.ErrnoException) => this.#failed(error))
        // Before kafkajs hears of it, whose own words would be less.
        socket.once('end', () => this.#closed('the connection was closed'))
        socket.once('close', () => this.#closed('the connection was closed'))
        return socket
      }
    })
  }

  get isReady(): boolean {
    return this.#isReady && this.#lost === null && this.#connection.isConnected()
  }

  /** It was closed before anything was answered on it, which may be the wrong side of a listener. */
  get isTurnedAway(): boolean {
    return this.#lost?.code === turnedAway
  }

  /** It ended because an answer did not come. */
  get isMute(): boolean {
    return this.#lost?.code === 'ETIMEDOUT'
  }

  /** Connects, agrees on versions and logs in; the same promise for all who ask. @throws LinkLost, or what the login said */
  open(timeoutMs: number): Promise<void> {
    this.#opening ??= this.#within(timeoutMs, 'connecting', this.#open())
    return this.#opening
  }

  /**
   * One request. `onSent` is called when it is about to be written: before that nothing has left.
   * @throws LinkLost; or what the answer's error code says, unless `isUnchecked`
   */
  call<T>(api: Api, args: object, timeoutMs: number, own: Own = {}, onSent?: () => void): Promise<T> {
    if (this.#lost !== null) return Promise.reject(this.#lost)
    if (!this.isReady) return Promise.reject(new LinkLost('ENOTCONN', `not connected to ${this.#name}`))
    const { request, response } = lookup(this.#connection.versions!)(apiKeys[api]!, requests[api]!)(args)
    const { apiVersion } = request
    const written: WireRequest = {
      ...request,
      encode: async () => {
        const encoded = await request.encode()
        onSent?.()
        return encoded
      }
    }
    const read = {
      decode: async (raw: Buffer) => {
        this.#hasAnswered = true
        if (own.decode !== undefined) return own.decode(raw, apiVersion)
        const decoded = (await response.decode(raw)) as { readonly clientSideThrottleTime?: number }
        if (own.pieces !== undefined) this.#connection.requestQueue.maybeThrottle(decoded.clientSideThrottleTime ?? 0)
        return decoded
      },
      parse: async (decoded: unknown) => (own.isUnchecked === true ? decoded : response.parse(decoded))
    }
    const answered =
      own.pieces === undefined
        ? this.#connection.send({ request: written, response: read, logResponseError: false })
        : this.#send(request, own.pieces(apiVersion), onSent).then(read.decode)
    return this.#within(timeoutMs, api, answered) as Promise<T>
  }

  async #send({ apiKey, apiName, apiVersion }: WireRequest, pieces: readonly Buffer[], onSent?: () => void) {
    const connection = this.#connection
    // Its session may have ended.
    if (this.#isLoggedIn) await connection.authenticate()
    if (this.#lost !== null) throw this.#lost
    const correlationId = connection.nextCorrelationId()
    const client = Buffer.from(this.#clientId)
    const head = Buffer.allocUnsafe(14 + client.length)
    head.writeInt32BE(
      pieces.reduce((length, piece) => length + piece.length, head.length - 4),
      0
    )
    head.writeInt16BE(apiKey, 4)
    head.writeInt16BE(apiVersion, 6)
    head.writeInt32BE(correlationId, 8)
    head.writeInt16BE(client.length, 12)
    client.copy(head, 14)
    onSent?.()
    const { payload } = await new Promise<{ readonly payload: Buffer }>((resolve, reject) => {
      const sendRequest = () => {
        const socket = this.#socket!
        socket.cork()
        socket.write(head)
        for (const piece of pieces) socket.write(piece)
        socket.uncork()
      }
      const entry = { apiKey, apiName, apiVersion, correlationId, resolve, reject }
      connection.requestQueue.push({ entry, expectResponse: true, requestTimeout: null, sendRequest })
    })
    return payload
  }

  /** At once: whatever waits for an answer fails. */
  close(code = 'ECANCELED', message = 'closed'): void {
    if (this.#lost !== null) return
    this.#lost = new LinkLost(code, `${this.#name}: ${message}`)
    this.#connection.rejectRequests(this.#lost)
    // With an error, or kafkajs leaves its timer of the connection running.
    if (this.#socket !== null && !this.#socket.destroyed) this.#socket.destroy(this.#lost)
    for (const lost of [...this.#waiting]) lost(this.#lost)
    this.#onLost(this)
  }

  #failed(error: NodeJS.ErrnoException): void {
    if (error instanceof Undelivered) this.close('ELINKLOCAL', error.message)
    // Also what Node says of a server that closes during the handshake of TLS.
    else if (error.code === 'ECONNRESET' || error.code === 'EPIPE') this.#closed(error.message)
    else this.close(error.code ?? 'ECONNRESET', error.message === '' ? 'the connection failed' : error.message)
  }

  #closed(message: string): void {
    if (this.#isConnected && !this.#hasAnswered) this.close(turnedAway, this.#hint)
    else this.close('ECONNRESET', message)
  }

  async #open(): Promise<void> {
    if (isLinkLocal(this.#host)) throw linkLocalFault(this.#host)
    const connection = this.#connection
    await connection.connect()
    connection.setVersions(await this.#versions())
    connection.setSupportAuthenticationProtocol(connection.versions?.[apiKeys.SaslAuthenticate!] !== undefined)
    await connection.authenticate()
    this.#hasAnswered ||= this.#isLoggedIn
    this.#isReady = true
  }

  async #versions(): Promise<Versions> {
    // Version 0 is understood by every broker, and its answer holds all that is needed.
    const exchange = requests.ApiVersions!.protocol({ version: 0 })()
    const { apiVersions } = (await this.#connection.send(exchange)) as {
      apiVersions: readonly { apiKey: number; minVersion: number; maxVersion: number }[]
    }
    return Object.fromEntries(apiVersions.map(({ apiKey, ...range }) => [apiKey, range]))
  }

  /**
   * A request that is not answered in time takes its connection with it: answers come in order, so nothing behind it would come either. Not
   * left to kafkajs, which takes requests while it disconnects and then forgets them.
   */
  #within<T>(timeoutMs: number, what: string, work: Promise<T>): Promise<T> {
    return new Promise((resolve, reject) => {
      const end = () => {
        cancel()
        this.#waiting.delete(lost)
      }
      const lost = (error: LinkLost) => {
        end()
        reject(error)
      }
      const cancel = this.#clock.after(timeoutMs, () => {
        this.close('ETIMEDOUT', `no answer in ${timeoutMs} ms (${what})`)
        lost(this.#lost!)
      })
      this.#waiting.add(lost)
      work.then(
        value => {
          end()
          resolve(value)
        },
        (error: unknown) => {
          end()
          reject(error)
        }
      )
    })
  }
}
