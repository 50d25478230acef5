import type { Joining, Place, Position } from '../broker.ts'
import { Undelivered } from '../undelivered.ts'
import type { MemoryLog } from './memoryLog.ts'
import { type MemoryReading, placeName } from './memoryReading.ts'
import type { MemoryTopic } from './memoryTopic.ts'

interface Member {
  readonly how: Joining
  readonly reading: MemoryReading
  /** Partitions it has; counted anew at each sharing. */
  count: number
}

/** Readers that part partitions among themselves, and how far they have got. */
export class MemoryGroup {
  readonly name: string
  readonly #topic: (name: string) => MemoryTopic
  readonly #commits = new Map<string, Position>()
  readonly #members: Member[] = []
  readonly #owners = new Map<string, Member>()
  /** Where the members that are here began without a commit, so that nothing is passed over when partitions move. */
  readonly #begun = new Map<string, number>()

  constructor(name: string, topic: (name: string) => MemoryTopic) {
    this.name = name
    this.#topic = topic
  }

  get isEmpty(): boolean {
    return this.#members.length === 0
  }

  commits(): readonly Position[] {
    return [...this.#commits.values()]
  }

  restore(commits: readonly Position[]): void {
    for (const commit of commits) this.#commits.set(placeName(commit), commit)
  }

  /** @throws Undelivered when a topic cannot be */
  join(how: Joining, reading: MemoryReading): void {
    for (const topic of how.topics) this.#topic(topic)
    const member: Member = { how, reading, count: 0 }
    this.#members.push(member)
    this.#share()
    reading.tell()
  }

  leave(reading: MemoryReading): void {
    const at = this.#members.findIndex(member => member.reading === reading)
    if (at < 0) return
    const [member] = this.#members.splice(at, 1)
    for (const [name, owner] of this.#owners) if (owner === member) this.#owners.delete(name)
    if (this.isEmpty) this.#begun.clear()
    this.#share()
  }

  /** What new partitions hold is read from their beginning, whatever `start` says. */
  grown(topic: MemoryTopic, before: number): void {
    if (!this.#members.some(({ how }) => how.topics.includes(topic.name))) return
    for (const log of topic.logs.slice(before)) this.#begun.set(placeName(log), 0)
    this.#share()
  }

  /** @throws Undelivered when one is not the member's; the others are kept nevertheless */
  commit(reading: MemoryReading, positions: readonly Position[]): void {
    let lost: Place | null = null
    for (const { topic, partition, offset } of positions) {
      if (this.#owners.get(placeName({ topic, partition }))?.reading !== reading) lost = { topic, partition }
      else this.#commits.set(placeName({ topic, partition }), { topic, partition, offset })
    }
    if (lost !== null) throw new Undelivered('failed', `${placeName(lost)} is not with this member of ${this.name}`)
  }

  /** Evenly; what few want is given first, and of equals the one who has a partition keeps it. */
  #share(): void {
    for (const member of this.#members) member.count = 0
    const wanted = Map.groupBy(
      this.#members.flatMap(member => member.how.topics.map(topic => ({ topic, member }))),
      ({ topic }) => topic
    )
    const topics = [...wanted].toSorted(([, some], [, others]) => some.length - others.length)
    for (const [topic, takers] of topics) {
      const members = takers.map(({ member }) => member)
      for (const log of this.#topic(topic).logs) this.#give(log, members)
    }
  }

  #give(log: MemoryLog, members: readonly Member[]): void {
    const name = placeName(log)
    const owner = this.#owners.get(name)
    let next = members[0]!
    for (const member of members)
      if (member.count < next.count || (member.count === next.count && member === owner)) next = member
    next.count++
    if (next === owner) return
    if (owner !== undefined) {
      owner.reading.remove(log)
      owner.reading.tell()
    }
    this.#owners.set(name, next)
    next.reading.add(log, this.#start(log, next.how.start))
    next.reading.tell()
  }

  #start(log: MemoryLog, start: Joining['start']): number {
    const name = placeName(log)
    const commit = this.#commits.get(name)
    if (commit !== undefined) return commit.offset
    const begun = this.#begun.get(name) ?? (start === 'earliest' ? log.low : log.high)
    this.#begun.set(name, begun)
    return begun
  }
}

/** So many groups an embedded broker remembers; names of groups may come from requests. */
const mostGroups = 10_000
const longestName = 255

/** The groups of an embedded broker; beyond the bound, those leave that have been without members longest. */
export class MemoryGroups {
  readonly #topic: (name: string) => MemoryTopic
  readonly #all = new Map<string, MemoryGroup>()
  /** Called when a group's commits are forgotten. */
  onForget: (name: string) => void = () => {}

  constructor(topic: (name: string) => MemoryTopic) {
    this.#topic = topic
  }

  all(): Iterable<MemoryGroup> {
    return this.#all.values()
  }

  /** @throws Undelivered */
  get(name: string): MemoryGroup {
    let group = this.#all.get(name)
    if (group === undefined) {
      if (name === '' || name.length > longestName)
        throw new Undelivered('misconfigured', `${JSON.stringify(name.slice(0, 300))} is no name of a group`)
      if (this.#all.size >= mostGroups) this.#forgetOne()
      group = new MemoryGroup(name, this.#topic)
    }
    // Behind all others: the order is the order of use.
    this.#all.delete(name)
    this.#all.set(name, group)
    return group
  }

  #forgetOne(): void {
    for (const [name, group] of this.#all) {
      if (!group.isEmpty) continue
      this.#all.delete(name)
      this.onForget(name)
      return
    }
    throw new Undelivered('misconfigured', `an embedded broker has ${mostGroups} groups at most`)
  }
}
