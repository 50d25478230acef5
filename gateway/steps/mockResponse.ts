import { answer } from '../answer.ts'
import { ANSWERED } from '../exchange.ts'
import { refusal } from '../refusals.ts'
import type { Step } from './step.ts'

/** `mockResponse` (semantics §3.7): the gateway answers in the upstream's place, from the document or a fixed text. */
export const mockResponse: Step = {
  name: 'mockResponse',
  make(api) {
    if (api.operations.every(each => each.mock === null)) return null
    return {
      run(x) {
        const mock = x.operation?.mock ?? null
        if (mock === null) return undefined
        const made = mock({
          code: x.header('x-svc-accept-example-code'),
          accept: x.header('accept'),
          name: x.header('x-svc-accept-example-name')
        })
        if (typeof made === 'string') return refusal('mock_failed', 500, `failed to mock response: mock: ${made}`)
        // What is done to answers of the upstream is done to this one.
        x.upstreamMs = 0
        answer(x, made.status, [...made.pairs], made.body)
        return ANSWERED
      }
    }
  }
}
