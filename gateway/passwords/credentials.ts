import { createHmac, createSecretKey, randomBytes } from 'node:crypto'
import { Recent } from '../keys/recent.ts'
import { NOBODYS } from './hashes.ts'
import { isTooLong, type Passwords, passwords } from './passwords.ts'
import type { Refused } from './waiting.ts'

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

export type Verdict = 'right' | 'wrong' | Refused

/** Credentials that are being hashed. */
interface Under {
  /** Of who came first. */
  readonly address: string
  readonly verdict: Promise<Verdict>
}

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
  readonly #under = new Map<string, Under>()

  constructor(hashing: Pick<Passwords, 'check'>) {
    this.#passwords = hashing
  }

  /** A promise only where a hash must be made; the same credentials meanwhile wait for the same one. */
  check(claimed: Claimed): Verdict | Promise<Verdict> {
    const { password, stored, address, at, rememberMs } = claimed
    if (isTooLong(password)) return 'wrong'
    const print = this.#print(claimed)
    if (rememberMs > 0 && isWithin(this.#right.get(print), at, rememberMs)) return 'right'
    if (isWithin(this.#wrong.get(print), at, WRONG_MS)) return 'wrong'
    const under = this.#under.get(print)
    if (under !== undefined) return under.address === address ? under.verdict : this.#beside(under, claimed)
    const asked = this.#passwords.check(password, stored || NOBODYS, { address, at })
    if (!(asked instanceof Promise)) return asked
    const verdict = asked
      .then((fits): Verdict => {
        if (typeof fits === 'string') return fits
        const isRight = fits && stored !== ''
        const remembered = isRight ? this.#right : this.#wrong
        remembered.set(print, at)
        return isRight ? 'right' : 'wrong'
      })
      .finally(() => this.#under.delete(print))
    this.#under.set(print, { address, verdict })
    return verdict
  }

  /** The same credentials from two addresses: if the other one is turned away, that says nothing about this one. */
  async #beside({ verdict }: Under, claimed: Claimed): Promise<Verdict> {
    const told = await verdict
    return told === 'right' || told === 'wrong' ? told : this.check(claimed)
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
