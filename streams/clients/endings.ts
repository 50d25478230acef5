import type { Random } from '../../config/world.ts'
import type { Ending } from '../hub/hub.ts'

/** From 0 up to 1. */
export function fraction(random: Random): number {
  return random.bytes(4).readUInt32BE(0) / 2 ** 32
}

/** `value`, moved by up to a fifth, so that those who came together do not come back together. */
export function jittered(value: number, random: Random): number {
  return Math.round(value * (0.8 + 0.4 * fraction(random)))
}

/** Nothing is wrong with the client: it shall come again, spread over some seconds (facts/streams R23). */
export function comesAgain(why: Ending): boolean {
  return why === 'stopping' || why === 'changed' || why === 'age'
}

/** Milliseconds that such a client shall wait. */
export function returnMs(random: Random): number {
  return 500 + Math.round(4500 * fraction(random))
}

/** Seconds until coming again may help; null: nothing is known that would. */
function retryAfter(why: Ending, random: Random): number | null {
  if (comesAgain(why)) return returnMs(random) / 1000
  if (why === 'slow') return 1
  return why === 'fault' ? 5 : null
}

/** What a client is told: `{"code":…,"retry_after":…}`, under the 123 bytes of a WebSocket's close reason. */
export function farewell(why: Ending, random: Random): string {
  return JSON.stringify({ code: why, retry_after: retryAfter(why, random) })
}

/** RFC 6455 §7.4.1 and its registry; 4429 is our own. */
export const closeCodes: Readonly<Record<Ending, number>> = {
  left: 1000,
  key: 1008,
  quota: 4429,
  disabled: 1001,
  changed: 1012,
  stopping: 1012,
  age: 1001,
  slow: 1013,
  protocol: 1008,
  fault: 1011
}

/** Longest wait for a connection to end that we have ended; a client that may no longer be served gets little. */
export function closingMs(why: Ending, writeWaitMs: number): number {
  if (why === 'key' || why === 'disabled') return 250
  return writeWaitMs > 0 ? Math.min(writeWaitMs, 5000) : 5000
}
