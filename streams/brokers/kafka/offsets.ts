import { Undelivered } from '../../undelivered.ts'
import type { Cluster, Topic } from './cluster.ts'
import { hasMoved, KafkaFault, reasonOf, undelivered } from './errors.ts'
import type { Node } from './node.ts'

/** Times that stand for the ends of a partition. */
export const oldest = -2
export const newest = -1

interface Listed {
  readonly responses: readonly {
    readonly partitions: readonly { readonly partition: number; readonly errorCode: number; readonly offset: string }[]
  }[]
}

const askMs = 5_000

/**
 * Offset of the first record of each partition that is not older than `time`, or of one of its ends; -1: there is none.
 * @throws Undelivered
 */
export async function offsetsAt(
  cluster: Cluster,
  name: string,
  partitions: readonly number[],
  time: number,
  isCommitted = false
): Promise<Map<number, number>> {
  let fault: Undelivered = new Undelivered('unavailable', `topic ${name} has no leader`)
  // A leader that has just moved is another one at the second look.
  for (let attempt = 0; attempt < 3; attempt++) {
    if (attempt > 0) await new Promise<void>(resolve => cluster.clock.after(100 * attempt, resolve))
    try {
      const topic = attempt === 0 ? await cluster.topic(name) : await cluster.refresh(name)
      return await ask(cluster, topic, partitions, time, isCommitted)
    } catch (error) {
      fault = undelivered(error instanceof KafkaFault ? reasonOf(error.code) : 'unavailable', error)
      if (error instanceof KafkaFault ? !hasMoved(error.code) : fault.reason !== 'unavailable') break
    }
  }
  throw fault
}

async function ask(
  cluster: Cluster,
  topic: Topic,
  partitions: readonly number[],
  time: number,
  isCommitted: boolean
): Promise<Map<number, number>> {
  const byLeader = new Map<Node, number[]>()
  for (const partition of partitions) {
    const leader = cluster.leader(topic, partition)
    if (leader === null) throw new Undelivered('unavailable', `partition ${partition} of ${topic.name} has no leader`)
    byLeader.set(leader, [...(byLeader.get(leader) ?? []), partition])
  }
  const offsets = new Map<number, number>()
  for (const [node, partitions] of byLeader) {
    const link = await node.shared('ask')
    const asked = partitions.map(partition => ({ partition, timestamp: time }))
    const { responses } = await link.call<Listed>(
      'ListOffsets',
      { replicaId: -1, isolationLevel: isCommitted ? 1 : 0, topics: [{ topic: topic.name, partitions: asked }] },
      askMs,
      { isUnchecked: true }
    )
    for (const { partition, errorCode, offset } of responses.flatMap(({ partitions }) => partitions)) {
      if (errorCode !== 0) throw new KafkaFault(errorCode, `topic ${topic.name}`)
      offsets.set(partition, Number(offset))
    }
  }
  return offsets
}
