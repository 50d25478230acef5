import type { Clock } from '../../config/world.ts'
import { ANSWERED, type Exchange, type ReadBody } from '../exchange.ts'
import { type Refusal, refusals } from '../refusals.ts'
import { RequestBody } from './body.ts'

/** Bytes of bodies that may be kept at once, over all requests. */
const MOST_KEPT = 256 * 1024 * 1024
/** As the proxy's (`LEAST_BYTES_PER_SECOND`): a client that is slower, over a whole window, is not waited for. */
const LEAST_BYTES_PER_SECOND = 240
let kept = 0

export interface Bounds {
  /** Longest body in bytes. */
  readonly mostBytes: number
  /** The window in which a client must bring something; Infinity: it may take its time. */
  readonly readMs: number
}

/**
 * Reads the body of a request into `x.body`, unless somebody has; `giveBack` returns its place when the request has ended.
 * Resolves to undefined, the refusal, or ANSWERED when the client has left.
 */
export function readWhole(
  x: Exchange,
  { mostBytes, readMs }: Bounds,
  clock: Clock
): Promise<undefined | Refusal | typeof ANSWERED> {
  if (x.bodyLength > mostBytes) return Promise.resolve(refusals.bodyTooLarge)
  if (x.body !== null) return Promise.resolve(x.body.bytes.length > mostBytes ? refusals.bodyTooLarge : undefined)
  return new Promise(resolve => {
    const chunks: Buffer[] = []
    let size = 0
    let open = true
    let cancel = () => {}
    const end = (outcome: undefined | Refusal | typeof ANSWERED) => {
      if (!open) return
      open = false
      cancel()
      x.res.waiter = null
      if (outcome !== undefined) kept -= size
      resolve(outcome)
    }
    const refuse = (refusal: Refusal) => {
      // What still comes is dropped.
      x.res.linger()
      end(refusal)
    }
    const body = new RequestBody(x.req, x.res, x.bodyLength, x.expects, mostBytes, () => refuse(refusals.bodyTooLarge))
    const watch = (from: number) => {
      cancel = clock.after(readMs, () => {
        if (size - from < (LEAST_BYTES_PER_SECOND * readMs) / 1000) refuse(refusals.bodyTimeout)
        else watch(size)
      })
    }
    if (readMs !== Number.POSITIVE_INFINITY) watch(0)
    x.res.waiter = { closed: () => end(ANSWERED) }
    body.start({
      chunk(data) {
        if (!open) return true
        chunks.push(data)
        size += data.length
        kept += data.length
        if (kept > MOST_KEPT) refuse(refusals.storeUnavailable)
        return true
      },
      end(trailers) {
        if (!open) return
        const bytes: ReadBody['bytes'] = chunks.length === 1 ? chunks[0]! : Buffer.concat(chunks)
        x.body = { bytes, trailers }
        end(undefined)
      }
    })
  })
}

/** When the request has ended, by each who has asked for its body. */
export function giveBack(x: Exchange): void {
  if (x.body === null) return
  kept -= x.body.bytes.length
  x.body = null
}
