import type { Joining, Place, Position } from '../../broker.ts'
import type { Cluster } from './cluster.ts'
import type { Link } from './link.ts'
import { newest, offsetsAt, oldest } from './offsets.ts'

const askMs = 5_000

/** Who commits: a member, as long as the group is not parted anew. */
export interface Member {
  readonly generation: number
  readonly memberId: string
}

/**
 * Where the member of a group goes on in the partitions that it was given: where it was, else at the commits, else where a group begins.
 * @param before where it was
 * @param known partitions of each topic when the group was parted before; null: this member was not there
 * @throws KafkaFault, LinkLost, Undelivered
 */
export async function positionsOf(
  cluster: Cluster,
  link: Link,
  { group, start, isolation }: Joining,
  member: Member,
  places: readonly Place[],
  before: readonly Position[],
  known: ReadonlyMap<string, number> | null
): Promise<Position[]> {
  const positions = new Map(before.map(position => [placeName(position), position]))
  const fresh: Place[] = []
  for (const [topic, partitions] of byTopic(places.filter(place => !positions.has(placeName(place))))) {
    const committed = await committedOf(link, group, topic, partitions)
    for (const partition of partitions) {
      const offset = committed.get(partition) ?? -1
      if (offset < 0) fresh.push({ topic, partition })
      else positions.set(placeName({ topic, partition }), { topic, partition, offset })
    }
  }
  // A partition that was added under our eyes has nothing that is too old.
  const isNew = ({ topic, partition }: Place) => partition >= (known?.get(topic) ?? Number.POSITIVE_INFINITY)
  const begun: Position[] = []
  for (const time of [oldest, newest]) {
    const chosen = fresh.filter(place => (start === 'earliest' || isNew(place)) === (time === oldest))
    for (const [topic, partitions] of byTopic(chosen)) {
      const offsets = await offsetsAt(cluster, topic, partitions, time, isolation === 'read_committed')
      for (const partition of partitions)
        begun.push({ topic, partition, offset: Math.max(0, offsets.get(partition) ?? 0) })
    }
  }
  for (const position of begun) positions.set(placeName(position), position)
  // Kept at once: who takes the partition over before the first commit would begin at a newer end, and skip what came between.
  if (begun.length > 0 && start === 'latest') await commitOffsets(link, group, member, begun).catch(() => {})
  return places.map(place => positions.get(placeName(place))!)
}

async function committedOf(
  link: Link,
  group: string,
  topic: string,
  partitions: readonly number[]
): Promise<Map<number, number>> {
  const asked = { groupId: group, topics: [{ topic, partitions: partitions.map(partition => ({ partition })) }] }
  const { responses } = await link.call<{
    responses: readonly { partitions: readonly { partition: number; offset: string }[] }[]
  }>('OffsetFetch', asked, askMs)
  return new Map(
    responses.flatMap(({ partitions }) => partitions.map(({ partition, offset }) => [partition, Number(offset)]))
  )
}

/** @throws what the coordinator answered, LinkLost */
export async function commitOffsets(
  link: Link,
  group: string,
  { generation, memberId }: Member,
  positions: readonly Position[]
): Promise<void> {
  const topics = new Map<string, { partition: number; offset: string }[]>()
  for (const { topic, partition, offset } of positions) {
    const partitions = topics.get(topic)
    if (partitions === undefined) topics.set(topic, [{ partition, offset: `${offset}` }])
    else partitions.push({ partition, offset: `${offset}` })
  }
  const asked = {
    groupId: group,
    groupGenerationId: generation,
    memberId,
    topics: [...topics].map(([topic, partitions]) => ({ topic, partitions }))
  }
  await link.call('OffsetCommit', asked, askMs)
}

function byTopic(places: readonly Place[]): Map<string, number[]> {
  const topics = new Map<string, number[]>()
  for (const { topic, partition } of places) topics.set(topic, [...(topics.get(topic) ?? []), partition])
  return topics
}

export const placeName = ({ topic, partition }: Place): string => `${topic}/${partition}`
