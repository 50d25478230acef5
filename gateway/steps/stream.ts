import { STREAMING } from '../../streams/document/readStreaming.ts'
import { refusal } from '../refusals.ts'
import type { Step } from './step.ts'

const notAvailable = refusal('stream_unavailable', 503, 'Streaming is not available')

/** Streaming APIs end here: nothing of theirs goes to an upstream. */
export const stream: Step = {
  name: 'stream',
  make: api => (Object.hasOwn(api.document, STREAMING) ? { run: () => notAvailable } : null)
}
