import { Undelivered } from '../undelivered.ts'
import { MemoryLog, type Retention } from './memoryLog.ts'

/** So many topics one embedded broker has at most: names of topics may come from requests. */
export const mostTopics = 1000
/** So many partitions a topic has at most. */
const mostPartitions = 1000
const NAME = /^[a-zA-Z0-9._-]{1,249}$/

export interface MemoryTopic {
  readonly name: string
  /** By partition; only ever longer. */
  readonly logs: readonly MemoryLog[]
}

/** The topics of an embedded broker; one that is missing is made when it is first used. */
export class MemoryTopics {
  readonly #retention: Retention
  readonly #partitions: number
  readonly #all = new Map<string, MemoryTopic & { readonly logs: MemoryLog[] }>()
  /** Called after a topic has got more partitions; it had `before` of them. */
  onChange: (topic: MemoryTopic, before: number) => void = () => {}

  /** @param partitions of a topic that is made on first use */
  constructor(retention: Retention, partitions: number) {
    this.#retention = retention
    this.#partitions = partitions
  }

  all(): Iterable<MemoryTopic> {
    return this.#all.values()
  }

  /** @throws Undelivered */
  get(name: string): MemoryTopic {
    return this.#all.get(name) ?? this.make(name, this.#partitions)
  }

  /** Has at least so many partitions from now on. @throws Undelivered */
  make(name: string, partitions: number): MemoryTopic {
    let topic = this.#all.get(name)
    if (topic === undefined) {
      // The names that Kafka takes; `.` and `..` are none there.
      if (!NAME.test(name) || name === '.' || name === '..')
        throw new Undelivered('misconfigured', `${JSON.stringify(name.slice(0, 300))} is no name of a topic`)
      if (this.#all.size >= mostTopics)
        throw new Undelivered('misconfigured', `an embedded broker has ${mostTopics} topics at most`)
      topic = { name, logs: [] }
    }
    if (partitions > mostPartitions)
      throw new Undelivered('misconfigured', `a topic has ${mostPartitions} partitions at most`)
    this.#all.set(name, topic)
    const before = topic.logs.length
    if (before >= partitions) return topic
    while (topic.logs.length < partitions) topic.logs.push(new MemoryLog(name, topic.logs.length, this.#retention))
    this.onChange(topic, before)
    return topic
  }

  has(name: string): boolean {
    return this.#all.has(name)
  }
}
