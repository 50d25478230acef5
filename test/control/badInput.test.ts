import t from 'tap'
import { endpoints } from '../../control/endpoints/index.ts'
import type { Door, Endpoint } from '../../control/endpoint.ts'
import { api, gateway, type TestGateway } from '../helpers/gateway.ts'
import { type Bad, bodiesOf, unasked } from './badInput/bodies.ts'
import { creation, filled, Furniture, type Params } from './badInput/furnished.ts'
import { pathsIn, pathsOf, replaced, unique, wrongValues } from './badInput/members.ts'
import { ids, queries, queryValues } from './badInput/places.ts'
import { everything, type Headers, kept, type Reply, type Sending, type Wire, wire, wrong } from './badInput/wire.ts'

/** Walks the endpoint table with what nobody should send: a row that is added is tried by itself. */

t.setTimeout(300_000)

const MAX_BODY = 10 * 1024 * 1024
const settings = {
  gateway: { streaming: { enabled: true } },
  management: { streaming: { enabled: true }, failed_credentials_per_minute: 0, max_body_size: MAX_BODY }
}

interface Walk {
  readonly gw: TestGateway
  readonly wire: Wire
  readonly furniture: Furniture
  /** Sends, and fails the test for an answer that must not be. */
  tried(what: string, row: Endpoint, sending: Omit<Sending, 'method' | 'door'>, taken?: Bad['taken']): Promise<Reply | null>
}

async function walk(t: Tap.Test, more: Record<string, unknown> = {}): Promise<Walk> {
  const gw = await gateway(t, { settings: { ...settings, ...more } })
  const line = wire(gw, await gw.user({ org_id: 'default', email_address: 'walker@a.example' }))
  t.teardown(() => line.close())
  const furniture = new Furniture(gw)
  let seen = await gw.store.sequence()
  return {
    gw,
    wire: line,
    furniture,
    async tried(what, row, given, taken = 'any') {
      const { method, door } = row
      const name = `${method} ${row.path} ${what}`
      const sending = { method, door, ...given }
      let reply: Reply
      try {
        reply = await line.send(sending)
      } catch (cause) {
        t.fail(`${name}: ${cause}`)
        return null
      }
      const fault = wrong(sending, reply)
      const text = `${reply.status} ${reply.text.slice(0, 300)}`
      if (fault !== null) t.fail(`${name}: ${fault}: ${text}`)
      const isClosed = (row.body as { additionalProperties?: unknown }).additionalProperties === false
      if (reply.status < 400 && (taken === 'never' || (taken === 'open' && isClosed))) t.fail(`${name} is taken: ${text}`)
      const now = await gw.store.sequence()
      // The audit record of what is refused is one commit.
      if (reply.status >= 400 && now > seen + 1)
        for (const { kind, id } of (await gw.store.since(seen, kept)) ?? []) t.fail(`${name}: left ${kind} ${id}`)
      seen = now
      if (reply.status < 400 && method !== 'GET') {
        furniture.spent(row.path)
      }
      return reply
    }
  }
}
