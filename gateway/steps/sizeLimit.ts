import type { Exchange } from '../exchange.ts'
import { type Refusal, refusals } from '../refusals.ts'
import type { Step } from './step.ts'

// Semantics §3.7: these are let through whatever they carry.
const SKIPPED = new Set(['GET', 'DELETE', 'TRACE', 'OPTIONS', 'HEAD'])

/** `requestSizeLimit` of the API, then of the operation: looks at the stated length alone. */
export const sizeLimit: Step = {
  name: 'sizeLimit',
  make(api) {
    const { sizeLimit } = api
    if (sizeLimit === null && api.operations.every(each => each.sizeLimit === null)) return null
    return {
      run(x) {
        if (SKIPPED.has(x.method)) return undefined
        return (
          (sizeLimit === null ? undefined : within(x, sizeLimit)) ??
          (x.operation === null || x.operation.sizeLimit === null ? undefined : within(x, x.operation.sizeLimit))
        )
      }
    }
  }
}

function within(x: Exchange, most: number): Refusal | undefined {
  if (x.bodyLength < 0 || (x.bodyLength === 0 && x.header('content-length') === null)) return refusals.lengthRequired
  return x.bodyLength > most ? refusals.requestTooLarge : undefined
}
