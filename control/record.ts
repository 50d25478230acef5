import { createPatch } from 'rfc6902'
import type { Clock, Random } from '../config/world.ts'
import type { Store, Write } from '../gateway/store/store.ts'
import type { Caller } from './caller.ts'
import { newId } from './ids.ts'
import { masked } from './mask.ts'

/** Body of a stored `audit` document; its id is `_id`. */
export interface AuditRecord {
  readonly _id: string
  readonly req_id: string
  readonly org_id: string
  /** RFC 1123. */
  readonly date: string
  /** ISO 8601. */
  readonly timestamp: string
  readonly ip: string
  readonly user: string
  /** What the endpoint does, in words. */
  readonly action: string
  readonly method: string
  /** Path and query, secrets masked. */
  readonly url: string
  readonly status: number
  /** Of updates: JSON Patch (RFC 6902), secrets masked. */
  readonly diff?: readonly unknown[]
}

/** What is known of a call before it is handled. */
export interface Called {
  readonly caller: Caller
  readonly action: string
  readonly method: string
  readonly url: string
}

/** Longer documents are told as replaced whole: comparing takes time in the square of what differs. */
const LONGEST_COMPARED = 200_000

/** The audit record of one writing call: written in one commit with what the call writes, or alone when it wrote nothing. */
export class Recorder {
  readonly #store: Store
  readonly #record: Omit<AuditRecord, 'status' | 'diff'>
  #diff: readonly unknown[] | null = null
  #written: number | null = null

  constructor({ store, clock, random }: { store: Store; clock: Clock; random: Random }, called: Called) {
    this.#store = store
    const at = new Date(clock.now())
    const { caller, action, method, url } = called
    this.#record = {
      _id: newId({ clock, random }),
      req_id: Buffer.from(random.bytes(16)).toString('hex'),
      org_id: caller.org ?? '',
      date: at.toUTCString(),
      timestamp: at.toISOString(),
      ip: caller.address,
      user: caller.name,
      action,
      method,
      url
    }
  }

  /** The store as the call's handler sees it: its first commit carries the record. */
  get store(): Store {
    const { commit } = this.#store
    return { ...this.#store, commit: writes => (this.#written === null ? this.#with(writes) : commit(writes)) }
  }

  changed(before: unknown, after: unknown): void {
    const [from, to] = [masked(before), masked(after)]
    const long = JSON.stringify(from ?? null).length + JSON.stringify(to ?? null).length > LONGEST_COMPARED
    this.#diff = long ? [{ op: 'replace', path: '', value: '(too long to tell)' }] : createPatch(from, to)
  }

  /** Before the answer goes out. @throws Unavailable when it cannot be kept */
  async end(status: number): Promise<void> {
    if (this.#written !== status) await this.#store.commit([this.#write(status)])
  }

  async #with(writes: readonly Write[]): Promise<number> {
    const sequence = await this.#store.commit([...writes, this.#write(200)])
    this.#written = 200
    return sequence
  }

  #write(status: number): Write {
    const body: AuditRecord = { ...this.#record, status, ...(this.#diff === null ? {} : { diff: this.#diff }) }
    return { kind: 'audit', id: body._id, org: body.org_id, body }
  }
}
