import type { Report } from '../../config/report.ts'
import { pointer } from '../../config/validate.ts'
import { endpointsOf } from '../hosted.ts'
import type { Endpoint, StreamPlan } from '../plan.ts'
import { isWebSocket, shapeOf } from '../router.ts'

/** Two endpoints of one API that would take the same request: nobody could say which one it reaches. */
export function collisions(plans: readonly StreamPlan[], fault: Report): void {
  const taken = new Map<string, Endpoint>()
  for (const plan of plans)
    for (const endpoint of endpointsOf(plan)) {
      // A WebSocket's handshake is a GET, and without the switch its path answers 426.
      const verbs = isWebSocket(endpoint) ? ['GET'] : endpoint.verbs
      for (const verb of verbs) {
        const place = `${verb} ${shapeOf(endpoint.path)}`
        const holder = taken.get(place)
        if (holder === undefined) taken.set(place, endpoint)
        else if (holder !== endpoint) {
          const { side, name } = stands(endpoint)
          fault(
            `/streams/${pointer(plan.name)}/${side}`,
            `${place} (${name}) is taken by ${stands(holder).name} of ${holder.stream === plan.name ? 'this stream' : `the stream ${holder.stream}`}`
          )
          break
        }
      }
    }
}

const PLACES = {
  produce: { side: 'input', name: 'path' },
  produce_websocket: { side: 'input', name: 'ws_path' },
  poll: { side: 'output', name: 'path' },
  stream: { side: 'output', name: 'stream_path' },
  acknowledge: { side: 'output', name: 'acknowledgements of stream_path' },
  websocket: { side: 'output', name: 'ws_path' }
} as const

function stands({ kind }: Endpoint): (typeof PLACES)[Endpoint['kind']] {
  return PLACES[kind]
}
