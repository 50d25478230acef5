import type { Position } from '../../streams/broker.ts'
import {
  type DurableLog,
  type Kept,
  type KeptGroup,
  type KeptSegment,
  type KeptTopic,
  NotWritten
} from '../../streams/brokers/durableLog.ts'
import { Full, type Store, type Write } from './store.ts'

/**
 * The log of embedded brokers in the store. Its documents are of the "organisation" NAME of the broker, so that one broker's are
 * read alone: `NAME/t/TOPIC` a topic, `NAME/g/GROUP` a group's commits, `NAME/r/NUMBER` the records of one write to one
 * partition. Those that retention has emptied are written again by the next records: the store remembers a bounded
 * number of deletions, and a busy log must not push out those of others.
 */

const kind = 'stream_log'

/** Of one document of records, as base64 and apart from the first record. */
const mostBytes = 1_048_576
/** So many emptied documents are kept for the next records; more are deleted. */
const mostEmpty = 100

/** `[timestamp, key, value, headers]`, all bytes in base64. */
type RecordBody = [number, string | null, string | null, [string, string][]]

type Body =
  | { readonly is: 'topic'; readonly topic: string; readonly lows: readonly number[] }
  | { readonly is: 'group'; readonly group: string; readonly commits: readonly Position[] }
  | {
      readonly is: 'records'
      readonly topic: string
      readonly partition: number
      readonly base: number
      readonly records: readonly RecordBody[]
    }
  | { readonly is: 'empty' }

interface Segment {
  readonly id: string
  readonly base: number
  /** Offset behind the last record. */
  readonly end: number
}

/** What is known of one broker's documents. */
interface Known {
  /** By `TOPIC/PARTITION`, in order of offsets. */
  readonly segments: Map<string, Segment[]>
  empty: string[]
  /** Number of the next document of records. */
  next: number
}

export function streamLog(store: Store): DurableLog {
  const brokers = new Map<string, Known>()

  return {
    async load(broker) {
      const known: Known = { segments: new Map(), empty: [], next: 0 }
      const topics: KeptTopic[] = []
      const groups: KeptGroup[] = []
      const segments: KeptSegment[] = []
      for await (const documents of store.each<Body>(kind, { org: broker }))
        for (const { id, body } of documents) {
          if (body.is === 'topic') topics.push({ topic: body.topic, lows: body.lows })
          else if (body.is === 'group') groups.push({ group: body.group, commits: body.commits })
          else {
            known.next = Math.max(known.next, Number(id.slice(id.lastIndexOf('/') + 1)) + 1)
            if (body.is === 'empty') known.empty.push(id)
            else {
              const { topic, partition, base, records } = body
              segments.push({ topic, partition, base, records: records.map(recordOf) })
              segmentsOf(known, topic, partition).push({ id, base, end: base + records.length })
            }
          }
        }
      segments.sort((a, b) => a.base - b.base)
      for (const list of known.segments.values()) list.sort((a, b) => a.base - b.base)
      brokers.set(broker, known)
      return { topics, segments, groups }
    },

    async write(broker, what) {
      // Known again only when the store has taken it: after a failure nothing is, until `load`.
      const known = brokers.get(broker)!
      brokers.delete(broker)
      try {
        await store.commit(writesOf(broker, known, what))
      } catch (cause) {
        throw cause instanceof Full ? new NotWritten(cause.message, { cause }) : cause
      }
      brokers.set(broker, known)
    }
  }
}

function writesOf(broker: string, known: Known, { topics, segments, groups }: Kept): readonly Write[] {
  const writes: Write[] = []
  const put = (id: string, body: Body) => writes.push({ kind, id, org: broker, body })
  const emptied: string[] = []
  for (const { topic, lows } of topics) {
    put(`${broker}/t/${topic}`, { is: 'topic', topic, lows })
    for (const [partition, low] of lows.entries()) {
      const list = segmentsOf(known, topic, partition)
      const gone = list.findIndex(({ end }) => end > low)
      for (const { id } of list.splice(0, gone < 0 ? list.length : gone)) emptied.push(id)
    }
  }
  for (const segment of segments)
    for (const { base, records } of cut(segment)) {
      const { topic, partition } = segment
      const id = emptied.pop() ?? known.empty.pop() ?? `${broker}/r/${known.next++}`
      segmentsOf(known, topic, partition).push({ id, base, end: base + records.length })
      put(id, { is: 'records', topic, partition, base, records })
    }
  for (const { group, commits } of groups) {
    const id = `${broker}/g/${group}`
    if (commits.length === 0) writes.push({ kind, id, body: null })
    else put(id, { is: 'group', group, commits })
  }
  for (const id of emptied)
    if (known.empty.length < mostEmpty) {
      known.empty.push(id)
      put(id, { is: 'empty' })
    } else writes.push({ kind, id, body: null })
  return writes
}

/** In documents of a bearable size. */
function cut({ base, records }: KeptSegment): { base: number; records: RecordBody[] }[] {
  const parts: { base: number; records: RecordBody[] }[] = []
  let size = mostBytes
  for (const [i, { timestamp, key, value, headers }] of records.entries()) {
    const body: RecordBody = [
      timestamp,
      key?.toString('base64') ?? null,
      value?.toString('base64') ?? null,
      headers.map(([name, bytes]) => [name, bytes.toString('base64')])
    ]
    let more = 64 + (body[1]?.length ?? 0) + (body[2]?.length ?? 0)
    for (const [name, text] of body[3]) more += name.length + text.length
    if (size + more > mostBytes) {
      parts.push({ base: base + i, records: [] })
      size = 0
    }
    size += more
    parts.at(-1)!.records.push(body)
  }
  return parts
}

function recordOf([timestamp, key, value, headers]: RecordBody) {
  return {
    timestamp,
    key: key === null ? null : Buffer.from(key, 'base64'),
    value: value === null ? null : Buffer.from(value, 'base64'),
    headers: headers.map(([name, bytes]) => [name, Buffer.from(bytes, 'base64')] as const)
  }
}

function segmentsOf({ segments }: Known, topic: string, partition: number): Segment[] {
  const name = `${topic}/${partition}`
  const list = segments.get(name) ?? []
  segments.set(name, list)
  return list
}
