import type { BodyCheck, CheckedHead, Misfit, Operation } from '../api.ts'
import type { Exchange, Outcome } from '../exchange.ts'
import { behindSegments } from '../paths.ts'
import { giveBack, readWhole } from '../proxy/readWhole.ts'
import { type Refusal, refusal } from '../refusals.ts'
import type { Step } from './step.ts'

/** Longest body that is looked into. */
const MOST_BYTES = 4 * 1024 * 1024

/**
 * `validateRequest` (semantics §3.7): parameters, then the body, are held to the document. A body whose content matters
 * is read whole before anything goes to the upstream, which then gets its bytes as they came.
 */
export const validateRequest: Step = {
  name: 'validateRequest',
  make(api, { settings, clock }) {
    if (api.operations.every(each => each.requestCheck === null)) return null
    const { max_request_body_size, read_timeout } = settings.http_server_options
    const bounds = {
      mostBytes: max_request_body_size > 0 ? Math.min(max_request_body_size, MOST_BYTES) : MOST_BYTES,
      readMs: read_timeout > 0 ? read_timeout * 1000 : Number.POSITIVE_INFINITY
    }
    const count = api.listenSegments.length

    async function content(x: Exchange, operation: Operation, check: BodyCheck): Promise<Outcome> {
      const outcome = await readWhole(x, bounds, clock)
      if (outcome !== undefined) return outcome
      const misfit = check.misfit(x.body!.bytes)
      return misfit === null ? undefined : refusalOf(operation, misfit)
    }

    return {
      run(x) {
        const { operation } = x
        if (operation === null || operation.requestCheck === null) return undefined
        const { requestCheck } = operation
        const head: CheckedHead = {
          path: x.plain ? x.rest : behindSegments(x.path, count),
          query: x.query,
          pairs: x.req.rawHeaders,
          bodyLength: x.bodyLength
        }
        const misfit = requestCheck.head(head)
        if (misfit !== null) return refusalOf(operation, misfit)
        const body = requestCheck.body(head)
        if (body === null) return undefined
        return 'detail' in body ? refusalOf(operation, body) : content(x, operation, body)
      },
      after: giveBack
    }
  }
}

function refusalOf({ requestCheck, rivals }: Operation, { place, detail }: Misfit): Refusal {
  const told = place === 'path' && rivals.length > 0 ? "path parameter doesn't match any endpoint" : detail
  return refusal('request_invalid', requestCheck!.status, `request validation error: ${told}`)
}
