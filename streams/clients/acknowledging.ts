import type { Call } from '../call.ts'
import type { Hub } from '../hub/hub.ts'
import { no, nos } from '../refusals.ts'

/** A client that cannot say itself what it has: whoever holds its key says it for it. */
export interface Acknowledging {
  readonly key: string
  /** False: this id is not under way there. */
  acknowledge(id: string): boolean
}

const MOST_ID = 512
const badId = no(nos.badRequest.code, 400, '`id` must be the id of an event')
const notUnderWay = no('not_under_way', 404, 'This id is not under way here')

/** Event streams of each hub whose messages wait for `POST …/ack`. */
export class AckDesk {
  readonly #waiting = new WeakMap<Hub, Set<Acknowledging>>()

  /** The answer takes it out again. */
  add(hub: Hub, client: Acknowledging): () => void {
    const clients = this.#waiting.get(hub) ?? new Set()
    this.#waiting.set(hub, clients)
    clients.add(client)
    return () => void clients.delete(client)
  }

  /** Everything up to `?id=` is delivered, at the client of the same key that has it. Answers the call. */
  take(call: Call, hub: Hub): void {
    const id = new URLSearchParams(call.query).get('id') ?? ''
    if (id === '' || id.length > MOST_ID) return call.refuse(badId)
    for (const client of this.#waiting.get(hub) ?? [])
      if (client.key === call.key && client.acknowledge(id))
        return call.answer(204, ['Cache-Control', 'no-store'], null)
    call.refuse(notUnderWay)
  }
}
