import { network } from '../addresses.ts'

/** A caller of an API whose password waits. */
export interface Asker {
  /** Of the client. */
  readonly address: string
  /** Whose password it is said to be; unambiguous over all organisations. */
  readonly user: string
}

/** At once, those under way included. */
const MOST_OF_ADDRESS = 8
const MOST_OF_USER = 4
/** Of all callers; some seconds of work. Management has as many places of its own. */
const MOST = 128

/**
 * Who is next. Callers take turns by their address, so that one who sends many waits for himself; every other turn is the
 * management's, which has its own bounds against floods.
 */
export class Waiting<J> {
  readonly #own: J[] = []
  readonly #lines = new Map<string, J[]>()
  readonly #ofAddress = new Map<string, number>()
  readonly #ofUser = new Map<string, number>()
  #callers = 0
  #wasOwn = false

  /** @param asker null: management */
  add(job: J, asker: Asker | null): 'added' | 'too many' | 'full' {
    if (asker === null) {
      if (this.#own.length >= MOST) return 'full'
      this.#own.push(job)
      return 'added'
    }
    const address = network(asker.address)
    const ofAddress = this.#ofAddress.get(address) ?? 0
    const ofUser = this.#ofUser.get(asker.user) ?? 0
    if (ofAddress >= MOST_OF_ADDRESS || ofUser >= MOST_OF_USER) return 'too many'
    if (this.#callers >= MOST) return 'full'
    this.#callers++
    this.#ofAddress.set(address, ofAddress + 1)
    this.#ofUser.set(asker.user, ofUser + 1)
    const line = this.#lines.get(address)
    if (line === undefined) this.#lines.set(address, [job])
    else line.push(job)
    return 'added'
  }

  next(): J | undefined {
    const isOwn = this.#own.length > 0 && (!this.#wasOwn || this.#lines.size === 0)
    this.#wasOwn = isOwn
    if (isOwn) return this.#own.shift()
    const first = this.#lines.entries().next()
    if (first.done) return undefined
    const [address, line] = first.value
    const job = line.shift()!
    this.#lines.delete(address)
    // To the end: every other address comes first.
    if (line.length > 0) this.#lines.set(address, line)
    return job
  }

  /** Once for each that `next` gave: its place is free. */
  end(asker: Asker | null): void {
    if (asker === null) return
    this.#callers--
    less(this.#ofAddress, network(asker.address))
    less(this.#ofUser, asker.user)
  }
}

function less(counts: Map<string, number>, name: string): void {
  const left = counts.get(name)! - 1
  if (left === 0) counts.delete(name)
  else counts.set(name, left)
}
