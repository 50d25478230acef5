import type { DeliveryOptions } from '../../options.ts'
import type { Member } from './member.ts'
import type { Window } from './window.ts'

/*
 * Being behind by more than its queue does not make a client slow: a burst does that to everyone, as it comes faster than any socket
 * takes it. Slow is who has taken nothing for a while meanwhile, or whom the window has moved past. Memory is bounded all the same: what
 * waits is shared in the window, and that is bounded.
 */

const STILL_MS = 1000
/** One write of many bytes tells nothing until its end: what takes so much a millisecond is not still. Connections have `write_wait`. */
const BYTES_A_MS = 128
/** Who is behind for longer reads slower than messages come. */
const LONGEST_BURST_MS = 5000
/** So full its queue is at most when that is over. Not half: with small queues a client takes half of it at once. */
export const CAUGHT_UP = 0.25

/** How full its queue is; above 1: more waits for it than that may hold. */
export function fullness(member: Member, window: Window, queue: DeliveryOptions['queue']): number {
  const { backlog, position, unwritten, unwrittenBytes } = member
  const waiting = backlog === null ? window.next - position : backlog.size
  if (waiting <= 0) return 0
  const bytes = backlog === null ? window.bytesFrom(position) : backlog.bytes
  return Math.max((waiting + unwritten) / queue.messages, (bytes + unwrittenBytes) / queue.bytes)
}

/** To be asked again and again while its queue is more than full: the policy of its queue is for it. */
export function isSlow(member: Member, now: number, policy: DeliveryOptions['queue']['policy']): boolean {
  const { writes, unwrittenBytes } = member
  if (member.beyondAt === 0) member.beyondAt = now
  if (member.beyondAt === now || member.writesSeen !== writes) {
    member.movedAt = now
    member.writesSeen = writes
  }
  // Only an old message is lost, and the client stays: it is better off with newer ones.
  if (policy !== 'disconnect' && isSlowForGood(member, now)) return true
  return now - member.movedAt >= Math.max(STILL_MS, unwrittenBytes / BYTES_A_MS)
}

export function isSlowForGood({ beyondAt }: Member, now: number): boolean {
  return beyondAt !== 0 && now - beyondAt >= LONGEST_BURST_MS
}
