import { createHmac, createSecretKey, randomBytes } from 'node:crypto'
import { Recent } from '../keys/recent.ts'
import { NOBODYS } from './hashes.ts'
import { isTooLong, type Passwords, passwords } from './passwords.ts'

/** What a caller of an API says, and what is stored of it. */
export interface Claimed {
  readonly org: string
  readonly user: string
  readonly password: string
  /** The hash; '' where there is no such user, who takes the same time. */
  readonly stored: string
  /** Of the client. */
  readonly address: string
  /** Milliseconds since the epoch. */
  readonly at: number
  /** How long a right password is remembered, ms; 0: not at all. */
  readonly rememberMs: number
}

/** `too many`: of this address or user name wait already; `full`: of all. */
export type Verdict = 'right' | 'wrong' | 'too many' | 'full'

const RIGHT = 20_000
const WRONG = 10_000
/** How long a wrong password is known as such without hashing. */
const WRONG_MS = 10_000

/**
 * Passwords of callers, the last verdicts remembered. What is remembered is an HMAC over the stored hash too, under a key
 * of this process: another password in the store ends it, and no password can be read from memory by it.
 */
export class Credentials {
  readonly #passwords: Pick<Passwords, 'check'>
  readonly #key = createSecretKey(randomBytes(32))
  /** When they were verified, milliseconds since the epoch. */
  readonly #right = new Recent<number>(RIGHT)
  readonly #wrong = new Recent<number>(WRONG)
  readonly #under = new Map<string, Promise<Verdict>>()

  constructor(hashing: Pick<Passwords, 'check'>) {
    this.#passwords = hashing
  }

  /** A promise only where a hash must be made; the same credentials meanwhile wait for the same one. */
  check(claimed: Claimed): Verdict | Promise<Verdict> {
    const { org, user, password, stored, address, at, rememberMs } = claimed
    if (isTooLong(password)) return 'wrong'
    const print = this.#print(claimed)
    if (rememberMs > 0 && isWithin(this.#right.get(print), at, rememberMs)) return 'right'
    if (isWithin(this.#wrong.get(print), at, WRONG_MS)) return 'wrong'
    const under = this.#under.get(print)
    if (under !== undefined) return under
    const asked = this.#passwords.check(password, stored || NOBODYS, { address, user: `${org}\0${user}` })
    if (!(asked instanceof Promise)) return asked
    const verdict = asked
      .then((fits): Verdict => {
        const isRight = fits && stored !== ''
        const remembered = isRight ? this.#right : this.#wrong
        remembered.set(print, at)
        return isRight ? 'right' : 'wrong'
      })
      .finally(() => this.#under.delete(print))
    this.#under.set(print, verdict)
    return verdict
  }

  #print({ org, user, stored, password }: Claimed): string {
    // With their lengths before them no two lists of texts are one.
    const text = `${org.length} ${user.length} ${stored.length} ${org}${user}${stored}${password}`
    return createHmac('sha256', this.#key).update(text).digest('base64')
  }
}

function isWithin(since: number | undefined, at: number, ms: number): boolean {
  return since !== undefined && Math.abs(at - since) < ms
}

/** Of this process; where threads serve the data plane, of each of them. */
export const credentials = new Credentials(passwords)
