import { answer } from '../answer.ts'
import { addressOf, metadataOf, tellMetadata, wellKnownPath } from '../authentication/metadata.ts'
import { ANSWERED, type Exchange, type Outcome } from '../exchange.ts'
import { clientCertificates } from './clientCertificates.ts'
import { ipAccess } from './ipAccess.ts'
import type { Step } from './step.ts'

/**
 * `protectedResourceMetadata` (RFC 9728): tells whoever asks where tokens come from, without a credential, and names that
 * address in every 401. It is the gateway's own, so no allow list says anything about it: who may not come near the API at
 * all is asked here.
 */
export const resourceMetadata: Step = {
  name: 'resourceMetadata',
  make(api, tools) {
    const metadata = api.authentication?.metadata ?? null
    if (metadata === null) return null
    const path = wellKnownPath(metadata)
    const before = [ipAccess, clientCertificates].flatMap(step => step.make(api, tools)?.run ?? [])

    function tell(x: Exchange): Outcome {
      const body = Buffer.from(JSON.stringify(metadataOf(api, metadata!, addressOf(x))))
      answer(x, 200, ['Content-Type', 'application/json', 'Cache-Control', 'no-store'], body)
      return ANSWERED
    }

    async function guarded(x: Exchange): Promise<Outcome> {
      for (const run of before) {
        const refused = await run(x)
        if (refused !== undefined) return refused
      }
      return x.gone ? ANSWERED : tell(x)
    }

    return {
      run(x) {
        if (x.rest !== path || (x.method !== 'GET' && x.method !== 'HEAD') || x.at >= api.expires) return undefined
        return before.length === 0 ? tell(x) : guarded(x)
      },
      head(x, status, pairs) {
        if (status === 401 && x.refusal !== null) tellMetadata(pairs, addressOf(x) + path)
      }
    }
  }
}
