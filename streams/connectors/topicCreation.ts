import type { Clock, Log } from '../../config/world.ts'
import { backoffMs } from '../backoff.ts'
import type { Broker } from '../broker.ts'

/** Creates a topic where it is missing, again and again until that has worked. */
export function createdTopic(
  broker: Broker,
  topic: string,
  partitions: number,
  replicas: number,
  { clock, log, api, stream }: { clock: Clock; log: Log; api: string; stream: string }
): { fault(): string | null; close(): void } {
  let fault: string | null = `the topic ${topic} is being created`
  let cancel = () => {}
  let isClosed = false

  function attempt(tries: number): void {
    broker.createTopic(topic, partitions, replicas).then(
      () => {
        fault = null
      },
      cause => {
        if (isClosed) return
        fault = `the topic ${topic} could not be created: ${cause instanceof Error ? cause.message : String(cause)}`
        log.warn('a topic could not be created', { api_id: api, stream, topic, cause: String(cause) })
        cancel = clock.after(backoffMs(tries), () => attempt(tries + 1))
      }
    )
  }

  attempt(0)
  return {
    fault: () => fault,
    close() {
      isClosed = true
      cancel()
    }
  }
}
