import type { Place } from '../../broker.ts'
import { MemberAssignment, MemberMetadata } from './library.ts'

/** Who gets which partitions: what members of a group tell each other through its coordinator. */

export interface Joined {
  readonly generationId: number
  readonly leaderId: string
  readonly memberId: string
  /** Only the leader is told. */
  readonly members: readonly { readonly memberId: string; readonly memberMetadata: Buffer }[]
}

// The name under which plain kafkajs consumers part a group in turn, so that they can be members too.
const name = 'RoundRobinAssigner'
const version = 0

export const protocols = (topics: readonly string[]): object[] => [
  { name, metadata: MemberMetadata.encode({ version, topics }) }
]

/** All topics that any member wants. */
export function topicsOf({ members }: Joined, own: readonly string[]): string[] {
  return [
    ...new Set([...own, ...members.flatMap(({ memberMetadata }) => MemberMetadata.decode(memberMetadata).topics)])
  ]
}

/** Each partition to one of the members that want its topic, in turn; turns go on from one topic to the next, so that shares are even. */
export function assign({ members }: Joined, counts: ReadonlyMap<string, number>): object[] {
  const wanted = members.map(({ memberId, memberMetadata }) => ({
    memberId,
    topics: MemberMetadata.decode(memberMetadata).topics,
    assignment: {} as Record<string, number[]>
  }))
  wanted.sort((a, b) => (a.memberId < b.memberId ? -1 : 1))
  let turn = 0
  for (const [topic, count] of counts) {
    const takers = wanted.filter(({ topics }) => topics.includes(topic))
    if (takers.length === 0) continue
    for (let partition = 0; partition < count; partition++) {
      const { assignment } = takers[turn++ % takers.length]!
      const given = assignment[topic]
      if (given === undefined) assignment[topic] = [partition]
      else given.push(partition)
    }
  }
  return wanted.map(({ memberId, assignment }) => ({
    memberId,
    memberAssignment: MemberAssignment.encode({ version, assignment })
  }))
}

/** What a member was given; without topics that it does not want, which another leader may send. */
export function assignmentOf(encoded: Buffer, topics: readonly string[]): Place[] {
  const { assignment } = MemberAssignment.decode(encoded) ?? { assignment: {} }
  return Object.entries(assignment)
    .filter(([topic]) => topics.includes(topic))
    .flatMap(([topic, partitions]) => partitions.map(partition => ({ topic, partition })))
}
