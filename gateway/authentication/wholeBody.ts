import { ANSWERED, type Exchange, type Reply } from '../exchange.ts'
import { giveBack, readWhole } from '../proxy/readWhole.ts'
import type { Tools } from '../steps/step.ts'

/** Longest body that a method looks into, bytes. */
const MOST_BYTES = 4 * 1024 * 1024

/** Reads the body of a request into `x.body`, from where it goes up. Answers undefined, or what ends the request. */
export function wholeBody({
  settings,
  clock
}: Pick<Tools, 'settings' | 'clock'>): (x: Exchange) => ReturnType<typeof readWhole> {
  const { max_request_body_size, read_timeout } = settings.http_server_options
  const bounds = {
    mostBytes: max_request_body_size > 0 ? Math.min(max_request_body_size, MOST_BYTES) : MOST_BYTES,
    readMs: read_timeout > 0 ? read_timeout * 1000 : Number.POSITIVE_INFINITY
  }
  return async x => {
    if (x.gone) return ANSWERED
    const outcome = await readWhole(x, bounds, clock)
    if (outcome === undefined) x.res.once('close', ended)
    return outcome
  }
}

function ended(this: Reply): void {
  giveBack(this.exchange!)
}
