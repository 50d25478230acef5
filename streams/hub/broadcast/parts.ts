import type { Place } from '../../broker.ts'
import { bodyOfTime, fits, type Seen } from '../cursor.ts'
import type { Source } from '../hub.ts'

/** Next offsets by `Part.index`; a partition that came later is missing: it begins at 0. */
export type Vector = number[]

/** With more partitions than this a cursor tells a time. */
const MOST_NAMED = 256
/** Clocks of producers and partitions differ: a cursor that is a time goes back so far, and some messages come again. */
const TIME_MARGIN_MS = 2000

/** One partition of a broadcast. */
export class Part implements Place {
  readonly source: number
  /** Counts the topics of all sources. */
  readonly topicIndex: number
  readonly topic: string
  readonly partition: number
  readonly index: number
  /** Where the live tail began: those who wanted the newest begin here. */
  begin: number
  /** The next record to come from the broker. */
  received: number
  /** Below it, all has entered the window or was filtered out. */
  next: number
  /** As the broker told last. */
  high: number
  /** From here on the window has everything. */
  floor: number
  /** Records that have come and not entered the window. */
  waiting = 0
  waitingBytes = 0
  isPaused = false
  /** In the window. */
  kept = 0
  keptBytes = 0

  constructor(
    topicIndex: number,
    { source, topic }: TopicOf,
    partition: number,
    index: number,
    from: number,
    begin: number
  ) {
    this.source = source
    this.topicIndex = topicIndex
    this.topic = topic
    this.partition = partition
    this.index = index
    this.begin = begin
    this.received = from
    this.next = from
    this.high = begin
    this.floor = from
  }
}

interface TopicOf {
  readonly source: number
  readonly topic: string
}

/** The topics of the sources, in their order: what cursors count. */
export function topicsOf(sources: readonly Source[]): readonly TopicOf[] {
  return sources.flatMap(({ joining }, source) => joining.topics.map(topic => ({ source, topic })))
}

/** All partitions of a broadcast, and what it knows of them. */
export class Parts {
  readonly topics: readonly TopicOf[]
  readonly list: Part[] = []
  /** By topic and partition: the order of cursors. */
  #ordered: Part[] = []
  readonly #byPlace = new Map<string, Part>()

  constructor(topics: readonly TopicOf[]) {
    this.topics = topics
  }

  get(source: number, { topic, partition }: Place): Part | null {
    return this.#byPlace.get(`${source}:${partition}:${topic}`) ?? null
  }

  /** @param from the first offset to be read; @param begin of the live tail */
  add(source: number, { topic, partition }: Place, from: number, begin: number): void {
    const topicIndex = this.topics.findIndex(one => one.source === source && one.topic === topic)
    if (topicIndex === -1 || this.get(source, { topic, partition }) !== null) return
    const part = new Part(topicIndex, this.topics[topicIndex]!, partition, this.list.length, from, begin)
    this.list.push(part)
    this.#byPlace.set(`${source}:${partition}:${topic}`, part)
    this.#ordered = [...this.list].sort((a, b) => a.topicIndex - b.topicIndex || a.partition - b.partition)
  }

  /** What stands behind all that has entered the window. */
  vector(): Vector {
    return this.list.map(({ next }) => next)
  }

  /** Where those begin who want the newest. */
  begins(): Vector {
    return this.list.map(({ begin }) => begin)
  }

  /**
   * A partition that a cursor does not name begins at 0: it came later. One that a cursor of ours names and we do not know is new: another
   * gateway has heard of it before us.
   */
  vectorOf({ offsets, isSigned }: Seen & { readonly timestamp: null }): Vector {
    if (isSigned)
      offsets.forEach((ofTopic, topicIndex) => {
        const { source, topic } = this.topics[topicIndex]!
        for (const partition of ofTopic.keys()) this.add(source, { topic, partition }, 0, 0)
      })
    return this.list.map(({ topicIndex, partition }) => offsets[topicIndex]?.get(partition) ?? 0)
  }

  /** The window has all from there on. */
  covers(vector: Vector): boolean {
    for (const { index, floor } of this.list) if ((vector[index] ?? 0) < floor) return false
    return true
  }

  /** Everything below the vector has entered the window. */
  hasReached(vector: Vector): boolean {
    for (const { index, next } of this.list) if (next < (vector[index] ?? 0)) return false
    return true
  }

  /**
   * Text of a cursor, without version and signature.
   * @param vector null: behind all that has entered the window
   * @param ms of the record there: for when there are too many partitions to name
   */
  body(vector: Vector | null, ms: number): string {
    if (this.list.length > MOST_NAMED) return bodyOfTime(ms - TIME_MARGIN_MS)
    let text = ''
    let topic = 0
    let isFirst = true
    for (const part of this.#ordered) {
      if (part.topicIndex !== topic) {
        text += '~'.repeat(part.topicIndex - topic)
        topic = part.topicIndex
        isFirst = true
      }
      if (!isFirst) text += '_'
      isFirst = false
      text += `${part.partition}-${vector === null ? part.next : (vector[part.index] ?? 0)}`
    }
    return fits(text) ? text : bodyOfTime(ms - TIME_MARGIN_MS)
  }
}
