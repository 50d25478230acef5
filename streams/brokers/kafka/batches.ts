import type { Arrived } from '../../message.ts'
import { decompress } from './codecs.ts'
import { textOf } from './errors.ts'
import type { Fetched } from './fetchRequest.ts'
import { bodyOf, brokenBy, type Head, headAt, isCommit, recordsOf } from './recordsIn.ts'

/** What comes of a fetched partition, in order. */
export type Found =
  | { readonly records: readonly Arrived[]; readonly to: number }
  /** A batch that cannot be read: everything from `from` up to `to`. */
  | { readonly fault: string; readonly from: number; readonly to: number }

/**
 * Reads the batches from `position` on: without the marks of transactions and, if `isCommitted`, without what was given up. Stops behind
 * the first batch that cannot be read.
 */
export async function read(
  { topic, partition, aborted, batches }: Fetched,
  position: number,
  isCommitted: boolean
): Promise<Found[]> {
  const pending = [...aborted].sort((a, b) => a.from - b.from)
  const givenUp = new Set<bigint>()
  const records: Arrived[] = []
  let to = position
  for (let at = 0; ; ) {
    const head = headAt(batches, at)
    if (head === null) break
    at += head.bytes.length
    if (head.to <= position) continue
    let fault = brokenBy(head)
    if (fault === null) {
      try {
        while (pending.length > 0 && pending[0]!.from < head.to) givenUp.add(pending.shift()!.producerId)
        if (head.isControl) {
          if (!isCommit(head)) givenUp.delete(head.producerId)
        } else if (!(isCommitted && head.isTransactional && givenUp.has(head.producerId))) {
          for (const record of await recordsIn(head, topic, partition, position)) records.push(record)
        }
      } catch (error) {
        fault = textOf(error)
      }
    }
    if (fault !== null) {
      const broken = { fault, from: Math.max(head.from, position), to: Math.max(head.to, position + 1) }
      return to === position && records.length === 0 ? [broken] : [{ records, to }, broken]
    }
    to = Math.max(to, head.to)
  }
  return to === position ? [] : [{ records, to }]
}

async function recordsIn(head: Head, topic: string, partition: number, position: number): Promise<Arrived[]> {
  const body = decompress(head.codec, bodyOf(head))
  return recordsOf(head, body instanceof Promise ? await body : body, topic, partition, position)
}
