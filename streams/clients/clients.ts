import type { Clock, Log, Random } from '../../config/world.ts'
import type { Call } from '../call.ts'
import type { Connections } from '../connections.ts'
import type { Client, Ending, From, Hub, Seat } from '../hub/hub.ts'
import type { DeliveryOptions } from '../options.ts'
import { AckDesk } from './acknowledging.ts'
import { EventStream, headPairs, LineStream, lineType } from './eventStream.ts'
import { Poll } from './poll.ts'
import { askedOf } from './pollWords.ts'
import { positionOf } from './position.ts'
import type { About, Wants } from './pushClient.ts'
import { WebSocketClient } from './webSocketClient.ts'
import { Wheel } from './wheel.ts'

export type { About, Wants } from './pushClient.ts'

/** Those who get a stream's messages by HTTP: polls, endless answers, WebSockets. */
export interface Clients {
  /**
   * Answers the call: always, one way or another. The client joins the hub, and leaves it when its connection ends.
   * @param about names the stream in logs
   * @param filter which messages clients get; null: all
   */
  serve(
    kind: 'poll' | 'stream' | 'websocket',
    call: Call,
    hub: Hub,
    options: DeliveryOptions,
    about: About,
    filter: Wants
  ): void
  /** `POST …/ack`: an event stream's client acknowledges. Answers the call. */
  acknowledge(call: Call, hub: Hub): void
  /** Stops the clients' timer; they are to be closed before. */
  close(): void
}

/** A client on its way in and out. */
interface Guest extends Client {
  admitted(seat: Seat, leave: () => void): void
  ended(): void
}

export function clients(tools: { clock: Clock; log: Log; random: Random; connections: Connections }): Clients {
  const { clock, log, random, connections } = tools
  const wheel = new Wheel(clock)
  const shared = { log, random, wheel }
  const desk = new AckDesk()

  /** False: it was refused. */
  function admit(guest: Guest, call: Call, hub: Hub, from: From | null): boolean {
    const leave = connections.enter(call, (why: Ending) => guest.close(why))
    if (typeof leave !== 'function') {
      call.refuse(leave)
      return false
    }
    const seat = hub.join(guest, from)
    if ('status' in seat) {
      leave()
      call.refuse(seat)
      return false
    }
    guest.admitted(seat, leave)
    call.onClose(() => guest.ended())
    return true
  }

  return {
    serve(kind, call, hub, options, about, filter) {
      if (call.isGone) return
      const query = new URLSearchParams(call.query)
      const isEvents = kind === 'stream' && (!options.isRaw || acceptsEvents(call))
      if (call.method === 'HEAD') {
        // Of a poll nothing is taken: nobody would see it.
        if (kind === 'poll') return call.answer(204, ['Cache-Control', 'no-store'], null)
        if (kind === 'stream') return call.answer(200, headPairs(isEvents ? EVENTS : lineType(options)), null)
      }
      const asked = kind === 'poll' ? askedOf(query, options) : null
      if (asked !== null && 'status' in asked) return call.refuse(asked)
      const position = positionOf(call, options, query, asked?.cursor ?? null)
      if ('status' in position) return call.refuse(position)

      const enter = (guest: Guest) => admit(guest, call, hub, position.from)
      if (asked !== null) {
        const poll = new Poll(call, options, about, asked, tools, filter)
        if (enter(poll)) poll.begin()
      } else if (kind === 'websocket') {
        const client = new WebSocketClient(call, options, about, shared, filter)
        if (enter(client)) client.begin()
      } else {
        const client = isEvents
          ? new EventStream(call, options, about, shared, filter)
          : new LineStream(call, options, about, shared, filter)
        if (!enter(client)) return
        if (options.ack === 'client') client.onEnd(desk.add(hub, client))
        client.begin(query)
      }
    },
    acknowledge: (call, hub) => desk.take(call, hub),
    close: () => wheel.close()
  }
}

const EVENTS = 'text/event-stream'

function acceptsEvents(call: Call): boolean {
  const accept = call.header('accept')
  return accept?.toLowerCase().includes(EVENTS) ?? false
}
