import type { Events } from '../events.ts'
import type { Exchange } from '../exchange.ts'
import type { Refusal } from '../refusals.ts'

/** A credential was refused: the event `AuthFailure` tells it, once no other alternative is left. */
export function failed(x: Exchange, events: Events, refusal: Refusal): Refusal {
  if (x.failures === 'at once') tell(x, events)
  else x.failures = 'due'
  return refusal
}

/** From here on nobody lets the request in by another alternative: of what was refused, if anything was, is told once. */
export function tellLate(x: Exchange, events: Events): void {
  const { failures } = x
  x.failures = 'at once'
  if (failures === 'due') tell(x, events)
}

function tell(x: Exchange, events: Events): void {
  events.emit('AuthFailure', 'Attempted access with invalid credential', {
    apiId: x.route.api.id,
    path: x.path,
    origin: x.client
  })
}
