import type { Fields } from '../../../config/world.ts'
import type { Call } from '../../../streams/call.ts'
import { type Clients, clients } from '../../../streams/clients/clients.ts'
import { Connections } from '../../../streams/connections.ts'
import { type Batch, type Client, encoded, type From, type Hub, type Item } from '../../../streams/hub/hub.ts'
import { type DeliveryOptions, deliveryOptions } from '../../../streams/options.ts'
import type { No } from '../../../streams/refusals.ts'
import { type HandClock, handClock } from '../../helpers/clock.ts'
import { type Front, front } from '../produce/front.ts'

/** A client in a hub that does nothing by itself: what it was told, and what the test tells it. */
export class Seated {
  readonly client: Client
  readonly from: From | null
  written = 0
  readonly acknowledged: string[] = []
  readies = 0
  leaves = 0
  now: string | null = null

  constructor(client: Client, from: From | null) {
    this.client = client
    this.from = from
  }

  /** As a hub in turn: one by one while there is room. How many it took. */
  give(...items: Item[]): number {
    let taken = 0
    for (const one of items) {
      if (!this.client.hasRoom()) break
      this.client.take(one)
      taken++
    }
    this.client.flush()
    return taken
  }

  /** As a hub that broadcasts. */
  giveAll(...items: Item[]): void {
    const batch: Batch = { items, joined: format => Buffer.concat(items.map(item => encoded(item, format))) }
    this.client.takeAll(batch)
    this.client.flush()
  }
}

export interface Stand extends Front {
  readonly clock: HandClock
  readonly connections: Connections
  readonly clients: Clients
  readonly seats: Seated[]
  /** Lines at the end of connections. */
  readonly lines: Fields[]
  readonly sent: number[]
}

export interface Wanted {
  readonly options?: Partial<DeliveryOptions>
  /** Answers `join`. */
  readonly no?: No
  readonly charge?: Call['charge']
  readonly maxClients?: number
  readonly isByCookie?: boolean
  /** Called in the same turn, when a call was handed over. */
  readonly served?: (connections: Connections) => void
}

const HALF = Buffer.from([0x80])

/** A real server whose requests are clients of one stream. Closes with the test. */
export async function stand(
  t: { teardown(run: () => unknown): unknown },
  kind: 'poll' | 'stream' | 'websocket',
  { options = {}, no, charge, maxClients = 100, isByCookie = false, served = () => {} }: Wanted = {}
): Promise<Stand> {
  const clock = handClock()
  const connections = new Connections({ max_clients: maxClients, max_clients_per_key: 0, max_clients_per_address: 0 })
  const lines: Fields[] = []
  const sent: number[] = []
  const seats: Seated[] = []
  const log = {
    debug() {},
    info: (_msg: string, fields: Fields = {}) => void lines.push(fields),
    warn() {},
    error: (msg: string, fields: Fields = {}) => void lines.push({ msg, ...fields })
  }
  // The middle of every range, so that what is spread stands still.
  const random = { bytes: (count: number) => Buffer.concat([HALF, Buffer.alloc(count - 1)]) }
  const made = clients({ clock, log, random, connections })
  const hub = {
    join(client: Client, from: From | null) {
      if (no !== undefined) return no
      const seat = new Seated(client, from)
      seats.push(seat)
      return {
        written(count: number) {
          seat.written += count
        },
        acknowledge: (cursor: string) => seat.acknowledged.push(cursor) > 0,
        ready: () => void seat.readies++,
        leave: () => void seat.leaves++,
        cursor: () => seat.now
      }
    }
  } as unknown as Hub
  const delivery = { ...deliveryOptions({}), ...options }
  const about = { api: 'api1', stream: 'orders' }
  const server = await front(
    t,
    call => {
      const own = Object.assign(Object.create(call) as Call, { sent: (bytes: number) => void sent.push(bytes) })
      if (charge !== undefined) Object.assign(own, { charge })
      made.serve(kind, own, hub, delivery, about, null)
      served(connections)
    },
    { isByCookie, at: () => clock.now(), pairs: ['x-of-the-api', 'yes'] }
  )
  t.teardown(() => made.close())
  return Object.assign(server, { clock, connections, clients: made, seats, lines, sent })
}

let count = 0

/** A message; `cursor` is `c` and its offset. */
export function item(
  value: string | Buffer | null,
  more: Partial<Item['record']> & { cursor?: string | null } = {}
): Item {
  const { cursor, ...record } = more
  const offset = record.offset ?? 7
  return {
    record: {
      key: null,
      value: typeof value === 'string' ? Buffer.from(value) : value,
      headers: [],
      topic: 'orders',
      partition: 2,
      offset,
      timestamp: 1_900_000_000_000,
      ...record
    },
    seq: count++,
    size: 64 + (value?.length ?? 0),
    cursor: cursor === undefined ? `c${offset}` : cursor,
    deliveries: 1,
    encoded: []
  }
}
