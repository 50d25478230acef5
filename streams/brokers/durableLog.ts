import type { Position } from '../broker.ts'
import type { Message } from '../message.ts'

/** What an embedded broker keeps beyond the process; `gateway/store/streamLog.ts` keeps it in the store. */

export interface KeptTopic {
  readonly topic: string
  /** By partition: offset of the oldest record. */
  readonly lows: readonly number[]
}

export type KeptRecord = Message & {
  /** Milliseconds since the epoch. */
  readonly timestamp: number
}

/** Records of one partition that follow each other. */
export interface KeptSegment {
  readonly topic: string
  readonly partition: number
  /** Offset of the first. */
  readonly base: number
  readonly records: readonly KeptRecord[]
}

export interface KeptGroup {
  readonly group: string
  /** None: the group is forgotten. */
  readonly commits: readonly Position[]
}

export interface Kept {
  readonly topics: readonly KeptTopic[]
  readonly segments: readonly KeptSegment[]
  readonly groups: readonly KeptGroup[]
}

/** A write that failed and left nothing: its messages may be sent again. */
export class NotWritten extends Error {}

export interface DurableLog {
  /**
   * Everything of the broker; segments of a partition in order of their offsets. Some of their records may lie below the topic's
   * low.
   * @throws Error when the medium is away
   */
  load(broker: string): Promise<Kept>
  /**
   * All or nothing; when it resolves, it survives `kill -9`. Topics and groups replace what was kept of them, segments are
   * added. One call at a time for a broker.
   * @throws NotWritten; any other Error: it is not known whether it was written. After both `load` comes before the next
   * call
   */
  write(broker: string, what: Kept): Promise<void>
}
