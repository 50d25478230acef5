import type { Test } from 'tap'
import type { Endpoint } from '../../../control/endpoint.ts'
import { gateway, type TestGateway } from '../../helpers/gateway.ts'
import type { Bad } from './bodies.ts'
import { Furniture } from './furnished.ts'
import { kept, type Reply, type Sending, type Wire, wire, wrong } from './wire.ts'

export interface Walk {
  readonly gw: TestGateway
  readonly wire: Wire
  readonly furniture: Furniture
  /**
   * Sends, and fails the test for an answer that must not be, and for a trace of what was refused.
   * @param taken whether the endpoint may take it
   */
  tried(
    what: string,
    row: Endpoint,
    sending: Omit<Sending, 'method' | 'door'>,
    taken?: Bad['taken']
  ): Promise<Reply | null>
}

/** A gateway with an administrator who means no good. */
export async function walk(t: Test, more: Record<string, unknown> = {}): Promise<Walk> {
  const settings = {
    gateway: { streaming: { enabled: true } },
    management: { streaming: { enabled: true }, failed_credentials_per_minute: 0 },
    ...more
  }
  const gw = await gateway(t, { settings })
  const line = wire(gw, await gw.user({ org_id: 'default', email_address: 'walker@a.example' }))
  // Tap follows every promise, to tell which test one that nobody caught is of: a fifth of all the time here. Without it such a
  // one ends the process, which fails the file as well.
  t.hookDomain.destroy()
  t.teardown(() => line.close())
  const furniture = new Furniture(gw)

  const tried: Walk['tried'] = async (what, row, given, taken = 'any') => {
    const { method, door } = row
    const name = `${method} ${row.path}: ${what}`
    const sending = { method, door, ...given }
    const before = await gw.store.sequence()
    let reply: Reply
    try {
      reply = await line.send(sending)
    } catch (cause) {
      t.fail(`${name}: ${cause}`)
      return null
    }
    const text = `${reply.status} ${reply.text.slice(0, 300)}`
    const fault = wrong(sending, reply)
    if (fault !== null) t.fail(`${name}: ${fault}: ${text}`)
    const isClosed = (row.body as { additionalProperties?: unknown }).additionalProperties === false
    const isTaken = reply.status < 400
    if (isTaken && (taken === 'never' || (taken === 'open' && isClosed))) t.fail(`${name}: is taken: ${text}`)
    // A patch piles up.
    if (isTaken && (method === 'DELETE' || method === 'PATCH')) furniture.spent(row.path)
    // The audit record of what is refused is one commit.
    if (!isTaken && (await gw.store.sequence()) > before + 1)
      for (const { kind, id } of (await gw.store.since(before, kept)) ?? []) t.fail(`${name}: left ${kind} ${id}`)
    return reply
  }
  return { gw, wire: line, furniture, tried }
}

/** At the end of a walk: nothing broke inside, and everything else goes on. */
export async function unharmed(t: Test, { gw }: Walk): Promise<void> {
  t.same(
    gw.log.lines.filter(({ level }) => level === 'error'),
    [],
    'nothing broke inside'
  )
  t.equal((await gw.get('/hello')).status, 200)
  t.equal((await gw.api('GET', '/api/users/me')).status, 200)
}
