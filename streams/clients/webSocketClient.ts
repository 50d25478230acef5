import type { RawData, WebSocket } from 'ws'
import type { Call } from '../call.ts'
import type { Ending } from '../hub/hub.ts'
import type { DeliveryOptions } from '../options.ts'
import { closeCodes, farewell } from './endings.ts'
import { formatsOf } from './formats.ts'
import { handshake } from './handshake.ts'
import { type About, type ClientTools, PushClient, type Wants } from './pushClient.ts'
import { PING, textFrame } from './webSocketFrames.ts'

/** Envelopes with control frames: `msg`, `gap`, `error` to the client, `ack` from it. */
export const PROTOCOL = 'svc.stream.v1'

/** Clients of a stream have little to say. */
const MAX_PAYLOAD = 65_536
const OPEN = 1

/**
 * A WebSocket that takes messages. Frames go straight to the socket, past ws, which does the handshake, reads, and answers
 * pings; each write is whole frames, so the two never mix. Where clients acknowledge, they get envelopes: without ids
 * they could not.
 */
export class WebSocketClient extends PushClient {
  readonly #isSpoken: boolean
  #ws: WebSocket | null = null
  /** The first ping that nothing came back for; Infinity: none. */
  #unansweredAt = Number.POSITIVE_INFINITY
  #pingedAt = 0

  constructor(call: Call, options: DeliveryOptions, about: About, tools: ClientTools, wants: Wants) {
    const isSpoken = speaks(call)
    const { messages, envelopes, values } = formatsOf(options)
    const format = isSpoken ? messages : options.envelope || options.ack === 'client' ? envelopes : values
    super('websocket', format, wants, call, options, about, tools)
    this.#isSpoken = isSpoken
  }

  begin(): void {
    const { allowedOrigins } = this.options
    const protocols = this.#isSpoken ? [PROTOCOL] : []
    handshake(this.call, { protocols, maxPayload: MAX_PAYLOAD, allowedOrigins }, ws => this.#begun(ws))
  }

  #begun(ws: WebSocket): void {
    if (this.state === 'ended') return ws.terminate()
    this.#ws = ws
    const { now } = this.tools.wheel
    this.#pingedAt = now
    ws.on('message', (data, isBinary) => this.#message(data, isBinary))
    ws.on('ping', this.#heard)
    ws.on('pong', this.#heard)
    // ws closes by itself with the code that fits: 1009 too long, 1007 no UTF-8, 1002 no frame.
    ws.on('error', () => this.startClosing('protocol'))
    this.opened()
  }

  readonly #heard = (): void => {
    this.#unansweredAt = Number.POSITIVE_INFINITY
  }

  #message(data: RawData, isBinary: boolean): void {
    this.#heard()
    if (!this.#isSpoken && this.options.ack !== 'client') return
    const id = isBinary ? null : acknowledged(data)
    // What was on its way when we began to close still counts.
    if (id !== null) {
      if (this.options.ack === 'client') this.acknowledge(id)
    } else if (this.state === 'open' && this.#isSpoken && this.startClosing('protocol')) {
      this.say(textFrame('{"type":"error","code":"protocol","message":"only acknowledgements are expected"}'))
      this.#ws!.close(isBinary ? 1003 : 1008, farewell('protocol', this.tools.random))
    }
  }

  /** Behind a close frame nothing may follow (RFC 6455 §5.5.1), and ws answers the client's by itself. */
  protected override isWritable(): boolean {
    return this.#ws!.readyState === OPEN
  }

  protected gapBytes(missed: number | null, cursor: string | null): Buffer | null {
    if (this.format === formatsOf(this.options).values) return null
    return textFrame(JSON.stringify({ type: 'gap', missed, id: cursor }))
  }

  protected finish(why: Ending): void {
    this.#ws!.close(closeCodes[why], farewell(why, this.tools.random))
  }

  protected beat(now: number): void {
    const { pingPeriodMs, pongWaitMs } = this.options
    // The client has said goodbye: the connection ends soon, or is ended.
    if (!this.isWritable()) return void this.startClosing('left')
    if (pingPeriodMs === 0) return
    // Silence counts from a ping on, since a client that was not asked owes nothing, and a slow way is no silence.
    const graceMs = Math.max(pongWaitMs - pingPeriodMs, Math.min(pongWaitMs, SLOW_WAY_MS))
    if (pongWaitMs > 0 && now - this.#unansweredAt >= graceMs) return this.cut('silent')
    if (now - this.#pingedAt < pingPeriodMs) return
    this.#pingedAt = now
    if (this.#unansweredAt > now) this.#unansweredAt = now
    this.say(PING)
  }
}

/** What an answer to a ping may take, whatever `pong_wait` leaves for it. */
const SLOW_WAY_MS = 5_000

function speaks(call: Call): boolean {
  // Several lines of it are one list (RFC 6455 §11.3.4).
  const offered = call.req.headers['sec-websocket-protocol']
  return offered?.split(',').some(name => name.trim() === PROTOCOL) ?? false
}

/** The id of `{"type":"ack","id":"…"}`; null: it is something else. */
function acknowledged(data: RawData): string | null {
  try {
    const frame: unknown = JSON.parse(data.toString())
    if (typeof frame !== 'object' || frame === null) return null
    const { type, id } = frame as { type?: unknown; id?: unknown }
    return type === 'ack' && typeof id === 'string' ? id : null
  } catch {
    return null
  }
}
