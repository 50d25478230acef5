import type { Report } from '../../config/report.ts'
import { pointer } from '../../config/validate.ts'
import { endpointsOf } from '../hosted.ts'
import type { Endpoint, StreamPlan } from '../plan.ts'
import { isWebSocket, shapeOf } from '../router.ts'

/** Pairs of paths with placeholders that are compared: a document is read while others wait. */
const MOST_PAIRS = 20_000_000

/** A path with placeholders and one method. */
interface Pattern {
  readonly endpoint: Endpoint
  /** `{}` where a placeholder stands. */
  readonly segments: readonly string[]
}

/** Two endpoints of one API that would take the same request: nobody could say which one it reaches. */
export function collisions(plans: readonly StreamPlan[], fault: Report): void {
  const taken = new Map<string, Endpoint>()
  /** By method and length. */
  const patterns = new Map<string, Pattern[]>()
  let pairs = 0

  /** What takes some of the same requests, where neither path is the more specific one at every segment. */
  function rival(verb: string, endpoint: Endpoint): Pattern | null {
    const segments = shapeOf(endpoint.path).split('/')
    if (!segments.includes('{}')) return null
    const place = `${verb} ${segments.length}`
    const others = patterns.get(place) ?? []
    pairs += others.length
    if (pairs > MOST_PAIRS) return null
    const found = others.find(other => isRival(segments, other.segments))
    others.push({ endpoint, segments })
    patterns.set(place, others)
    return found ?? null
  }

  for (const plan of plans) {
    for (const endpoint of endpointsOf(plan)) {
      // A WebSocket's handshake is a GET, and without the switch its path answers 426.
      const verbs = isWebSocket(endpoint) ? ['GET'] : endpoint.verbs
      const { side, name } = stands(endpoint)
      for (const verb of verbs) {
        const shape = shapeOf(endpoint.path)
        const place = `${verb} ${shape}`
        const holder = taken.get(place)
        if (holder === endpoint) continue
        if (holder === undefined) taken.set(place, endpoint)
        const other = holder === undefined ? rival(verb, endpoint)?.endpoint : holder
        if (other === undefined) continue
        const whose = `${stands(other).name} of ${other.stream === plan.name ? 'this stream' : `the stream ${other.stream}`}`
        const told =
          holder === undefined
            ? `and ${other.path}, ${whose}, can both be meant by one request`
            : `is taken by ${whose}`
        fault(`/streams/${pointer(plan.name)}/${side}`, `${place} (${name}) ${told}`)
        break
      }
    }
  }
  if (pairs > MOST_PAIRS) fault('/streams', 'have too many paths with placeholders to tell them apart')
}

/** Both take the same literal segments, and each has one where the other has a placeholder, which takes no empty segment. */
function isRival(one: readonly string[], other: readonly string[]): boolean {
  let isNarrower = false
  let isWider = false
  for (let i = 1; i < one.length; i++) {
    const mine = one[i]!
    const theirs = other[i]!
    if (mine === theirs) continue
    if (mine === '{}') isWider = true
    else if (theirs === '{}') isNarrower = true
    else return false
    if (mine === '' || theirs === '') return false
  }
  return isNarrower && isWider
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
