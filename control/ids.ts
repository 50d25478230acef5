import { createHash } from 'node:crypto'
import type { Clock, Random } from '../config/world.ts'

/** A database id: 24 hexadecimal digits, the first eight the second of its making. */
export function newId({ clock, random }: { clock: Clock; random: Random }): string {
  const seconds = Math.floor(clock.now() / 1000) % 2 ** 32
  return seconds.toString(16).padStart(8, '0') + Buffer.from(random.bytes(8)).toString('hex')
}

/**
 * Storage id of a name that must be unique among documents of a kind in an organisation: a document of kind `name`, written
 * with `expect: 0` together with the one that it leads to.
 */
export function nameId(kind: string, org: string, name: string): string {
  return createHash('sha256').update(`${kind}\0${org}\0${name}`).digest('hex')
}
