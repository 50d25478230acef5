import { network } from '../addresses.ts'
import { Failures } from './failures.ts'

/** A caller of an API whose password waits. */
export interface Asker {
  /** Of the client. */
  readonly address: string
  /** Milliseconds since the epoch. */
  readonly at: number
}

/** `too many`: of this address, or of all that guess; `full`: of all. */
export type Refused = 'too many' | 'full'

/** Of all callers; some seconds of work. Management has as many places of its own. */
const MOST = 128
/** Of one address, those under way included. */
const MOST_OF_ADDRESS = 64
/** The same of one from which several wrong passwords came lately … */
const MOST_OF_FAILING = 4
/** … and of all such addresses together. */
const MOST_FAILING = MOST / 2
/** One of so many turns of callers is of failing addresses, if they wait. */
const TURNS = 4

interface Line<J> {
  readonly address: string
  readonly jobs: J[]
  /** Places: its jobs, and what is under way. */
  held: number
  failing: boolean
}

/**
 * Who is next. Callers take turns by their address, so that one who sends many waits for himself; those from whose address
 * several wrong passwords came lately come behind all others, and have less room. Every other turn is the management's,
 * which has its own bounds against floods. Nothing counts by user name: that would let anybody shut a user out.
 */
export class Waiting<J> {
  readonly #turnAway: (job: J, refused: Refused) => void
  readonly #failures = new Failures()
  readonly #own: J[] = []
  readonly #lines = new Map<string, Line<J>>()
  // Those with jobs, in the order of their turns.
  readonly #others = new Set<Line<J>>()
  readonly #failing = new Set<Line<J>>()
  #held = 0
  #heldByFailing = 0
  #wasOwn = false
  /** Turns of others since the last one of failing addresses. */
  #ahead = 0

  /** @param turnAway told of each job that had a place and has lost it to somebody else's */
  constructor(turnAway: (job: J, refused: Refused) => void) {
    this.#turnAway = turnAway
  }

  /** @param asker null: management */
  add(job: J, asker: Asker | null): 'added' | Refused {
    if (asker === null) {
      if (this.#own.length >= MOST) return 'full'
      this.#own.push(job)
      return 'added'
    }
    const address = network(asker.address)
    const failing = this.#failures.areMany(address, asker.at)
    const known = this.#lines.get(address)
    if (known !== undefined && known.failing !== failing) this.#mark(known, failing)
    const refused = this.#refused(known?.held ?? 0, failing)
    if (refused !== null) return refused
    const line = known ?? { address, jobs: [], held: 0, failing }
    this.#lines.set(address, line)
    line.jobs.push(job)
    this.#turns(line).add(line)
    this.#count(line, 1)
    return 'added'
  }

  next(): J | undefined {
    const callers = this.#others.size + this.#failing.size
    const isOwn = this.#own.length > 0 && (!this.#wasOwn || callers === 0)
    this.#wasOwn = isOwn
    if (isOwn) return this.#own.shift()
    if (callers === 0) return undefined
    const isFailing = this.#failing.size > 0 && (this.#others.size === 0 || this.#ahead >= TURNS - 1)
    this.#ahead = isFailing ? 0 : this.#ahead + 1
    const turns = isFailing ? this.#failing : this.#others
    const line = turns.values().next().value!
    const job = line.jobs.shift()!
    turns.delete(line)
    // To the end: every other address comes first.
    if (line.jobs.length > 0) turns.add(line)
    return job
  }

  /** Once for each that `next` gave: its place is free. */
  end(asker: Asker | null): void {
    if (asker !== null) this.#count(this.#lines.get(network(asker.address))!, -1)
  }

  /** A wrong password came, whether it had to be hashed or not; several make an address a failing one. */
  failed({ address: of, at }: Asker): void {
    const address = network(of)
    this.#failures.add(address, at)
    const line = this.#lines.get(address)
    if (line !== undefined && !line.failing && this.#failures.areMany(address, at)) this.#mark(line, true)
  }

  #refused(held: number, failing: boolean): Refused | null {
    if (held >= (failing ? MOST_OF_FAILING : MOST_OF_ADDRESS)) return 'too many'
    if (failing && this.#heldByFailing >= MOST_FAILING) return 'too many'
    return this.#held < MOST || (!failing && this.#makeRoom(held)) ? null : 'full'
  }

  /** For an address that is not failing, and holds so many places: failing ones go first, then whoever has more. */
  #makeRoom(held: number): boolean {
    const failing = longest(this.#failing)
    if (failing !== null) {
      this.#drop(failing, 'too many')
      return true
    }
    const other = longest(this.#others)
    if (other === null || other.held <= held + 1) return false
    this.#drop(other, 'full')
    return true
  }

  #mark(line: Line<J>, failing: boolean): void {
    this.#turns(line).delete(line)
    line.failing = failing
    this.#heldByFailing += failing ? line.held : -line.held
    if (line.jobs.length > 0) this.#turns(line).add(line)
    const isOver = () => line.held > MOST_OF_FAILING || this.#heldByFailing > MOST_FAILING
    while (failing && line.jobs.length > 0 && isOver()) this.#drop(line, 'too many')
  }

  /** Its last job: those before have waited longer. */
  #drop(line: Line<J>, refused: Refused): void {
    const job = line.jobs.pop()!
    if (line.jobs.length === 0) this.#turns(line).delete(line)
    this.#count(line, -1)
    this.#turnAway(job, refused)
  }

  #count(line: Line<J>, more: 1 | -1): void {
    line.held += more
    this.#held += more
    if (line.failing) this.#heldByFailing += more
    if (line.held === 0) this.#lines.delete(line.address)
  }

  #turns({ failing }: Line<J>): Set<Line<J>> {
    return failing ? this.#failing : this.#others
  }
}

/** Which holds the most places; null: there is none. */
function longest<J>(lines: Iterable<Line<J>>): Line<J> | null {
  let found: Line<J> | null = null
  for (const line of lines) if (found === null || line.held > found.held) found = line
  return found
}
