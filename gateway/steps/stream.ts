import { ANSWERED } from '../exchange.ts'
import type { Step } from './step.ts'
import { streamCalls } from './streamCall.ts'

/** Streaming APIs end here: nothing of theirs goes to an upstream. */
export const stream: Step = {
  name: 'stream',
  make(api, tools) {
    if (api.streams === null) return null
    const callOf = streamCalls(api, tools)
    const { streams } = tools
    return {
      run(x) {
        streams.handle(api.id, callOf(x))
        return ANSWERED
      }
    }
  }
}
