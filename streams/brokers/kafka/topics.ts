import type { Cluster } from './cluster.ts'
import { codes, KafkaFault, reasonOf, undelivered } from './errors.ts'

const createMs = 15_000

/** Until its partitions have leaders; nothing when it is there already. Values below 1: the broker's defaults. @throws Undelivered */
export async function createTopic(
  cluster: Cluster,
  topic: string,
  partitions: number,
  replicas: number
): Promise<void> {
  const until = cluster.clock.now() + createMs
  const asked = {
    topics: [
      { topic, numPartitions: partitions < 1 ? -1 : partitions, replicationFactor: replicas < 1 ? -1 : replicas }
    ],
    validateOnly: false,
    timeout: 5_000
  }
  let code: number
  try {
    // Any node passes it on to the controller since Kafka 3; before, only the controller takes it.
    const link = await cluster.controller()
    const { topicErrors } = await link.call<{ topicErrors: readonly { errorCode: number }[] }>(
      'CreateTopics',
      asked,
      createMs,
      {
        isUnchecked: true
      }
    )
    code = topicErrors[0]?.errorCode ?? -1
  } catch (error) {
    throw undelivered('unavailable', error)
  }
  if (code !== 0 && code !== codes.topicExists)
    throw undelivered(reasonOf(code), new KafkaFault(code, `topic ${topic}`))
  cluster.forget(topic)
  for (;;) {
    const known = await cluster.refresh(topic).catch(() => null)
    if (known !== null && known.leaders.length > 0 && known.leaders.every(leader => leader >= 0)) return
    if (cluster.clock.now() > until) throw undelivered('unavailable', new Error(`topic ${topic} has no leader yet`))
    cluster.forget(topic)
    await new Promise<void>(resolve => cluster.clock.after(50, resolve))
  }
}
