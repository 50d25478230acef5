import type { Events } from '../events.ts'
import type { Exchange } from '../exchange.ts'
import type { Refusal } from '../refusals.ts'

/** A credential was refused: the event `AuthFailure` tells it. */
export function failed(x: Exchange, events: Events, refusal: Refusal): Refusal {
  events.emit('AuthFailure', 'Attempted access with invalid credential', {
    apiId: x.route.api.id,
    path: x.path,
    origin: x.client
  })
  return refusal
}
