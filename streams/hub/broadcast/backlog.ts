import type { Entry } from './entry.ts'
import type { Window } from './window.ts'

/**
 * What waits for one client that does not get everything (a filter, or only the newest of each key), in order of arrival. Others need
 * none: they are positions in the window.
 */
export class Backlog {
  readonly #entries = new Map<string | number, Entry>()
  readonly #window: Window
  readonly #isByKey: boolean
  bytes = 0

  /** @param isByKey of messages with one key only the newest stays */
  constructor(window: Window, isByKey: boolean) {
    this.#window = window
    this.#isByKey = isByKey
  }

  get size(): number {
    return this.#entries.size
  }

  /** Sequence number of the oldest; -1: none. */
  get first(): number {
    for (const entry of this.#entries.values()) return entry.seq
    return -1
  }

  /** True: it took the place of an older one. */
  add(entry: Entry): boolean {
    const { key } = entry.record
    const name = this.#isByKey && key !== null ? `${entry.part.topicIndex}:${key.toString('latin1')}` : entry.seq
    const old = this.#entries.get(name)
    if (old !== undefined) this.#remove(name, old)
    this.#entries.set(name, entry)
    this.#window.hold(entry)
    this.bytes += entry.size
    return old !== undefined
  }

  /** Takes the oldest out; null: there is none. */
  shift(): Entry | null {
    for (const [name, entry] of this.#entries) {
      this.#remove(name, entry)
      return entry
    }
    return null
  }

  clear(): void {
    while (this.shift() !== null);
  }

  #remove(name: string | number, entry: Entry): void {
    this.#entries.delete(name)
    this.#window.release(entry)
    this.bytes -= entry.size
  }
}
