import type { Clock, Fields, Log } from '../config/world.ts'

const APART_MS = 10_000
const LONGEST = 300

/** A warning that thousands of messages may cause: one line in ten seconds, which counts the others. */
export function seldom(log: Log, clock: Clock, msg: string, fields: Fields): (why: string, more?: Fields) => void {
  let last = Number.NEGATIVE_INFINITY
  let silent = 0
  return (why, more) => {
    const now = clock.now()
    if (now - last < APART_MS) {
      silent++
      return
    }
    log.warn(msg, { ...fields, ...more, reason: why.slice(0, LONGEST), ...(silent > 0 ? { more: silent } : {}) })
    last = now
    silent = 0
  }
}

/** The words of whatever was thrown. */
export function words(fault: unknown): string {
  return (fault instanceof Error ? fault.message : String(fault)).slice(0, LONGEST)
}
