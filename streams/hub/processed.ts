import type { Process } from '../connector.ts'
import type { Arrived, Message } from '../message.ts'
import { through } from '../processors/passing.ts'
import { words } from '../seldom.ts'

/**
 * What processors make of a record: itself where they change nothing; null: it is filtered out; a text: why it cannot go on,
 * whatever they threw, since one bad record must not stop those behind it.
 */
export function processed(record: Arrived, processes: readonly Process[]): Arrived | null | string {
  let message: Message | null
  try {
    message = through(processes, record)
  } catch (fault) {
    return words(fault)
  }
  if (message === null) return null
  if (message === record) return record
  const { topic, partition, offset, timestamp } = record
  return { key: message.key, value: message.value, headers: message.headers, topic, partition, offset, timestamp }
}
