import type { Clock, Random } from '../config/world.ts'
import type { Store, Write } from '../gateway/store/store.ts'
import type { AuditRecord, AuditTrail } from './audit.ts'
import type { Caller } from './caller.ts'
import { difference } from './difference.ts'
import { newId } from './ids.ts'
import { masked, maskedUrl } from './mask.ts'
import { isLonger } from './size.ts'

/** What is known of a call before it is handled. */
export interface Called {
  readonly caller: Caller
  readonly action: string
  readonly method: string
  readonly url: string
  /** Of the endpoint's success. */
  readonly status: number
}

/** Characters. Longer documents, and longer differences, are told as replaced whole. */
const LONGEST_COMPARED = 200_000
const LONGEST_DUMP = 10_000
const LONGEST_URL = 2_000

/** The audit record of one writing call: written in one commit with what the call writes, or alone when it wrote nothing. */
export class Recorder {
  readonly #store: Store
  readonly #trail: AuditTrail
  readonly #org: string | null
  readonly #record: Omit<AuditRecord, 'status' | 'org_id'>
  #more: Pick<AuditRecord, 'diff' | 'request_dump' | 'response_dump'> = {}
  readonly #success: number
  #writtenOrg = ''
  #written: number | null = null

  constructor(
    trail: AuditTrail,
    { store, clock, random }: { store: Store; clock: Clock; random: Random },
    called: Called
  ) {
    this.#store = store
    this.#trail = trail
    const at = new Date(clock.now())
    const { caller, action, method, url, status } = called
    this.#success = status
    this.#org = caller.org
    this.#record = {
      _id: newId({ clock, random }),
      req_id: Buffer.from(random.bytes(16)).toString('hex'),
      date: at.toUTCString(),
      timestamp: at.toISOString(),
      ip: caller.address,
      user: caller.name,
      action,
      method,
      url: maskedUrl(url).slice(0, LONGEST_URL)
    }
  }

  /** The store as the call's handler sees it: its first commit carries the record. */
  get store(): Store {
    if (this.#trail.place === 'file') return this.#store
    const { commit } = this.#store
    return { ...this.#store, commit: writes => (this.#written === null ? this.#with(writes) : commit(writes)) }
  }

  changed(before: unknown, after: unknown): void {
    const isLong = isLonger([before, after], LONGEST_COMPARED)
    const diff = isLong ? null : difference(masked(before), masked(after), LONGEST_COMPARED)
    this.#more = { ...this.#more, diff: diff ?? [{ op: 'replace', path: '', value: '(too long to tell)' }] }
  }

  /** The request's body, as far as it could be read. */
  asked(body: unknown): void {
    if (this.#trail.detailed) this.#more = { ...this.#more, request_dump: dump(body) }
  }

  /** Before the answer goes out. @throws Unavailable, or what a file throws, when it cannot be kept */
  async end(status: number, answer: unknown): Promise<void> {
    if (this.#trail.detailed) this.#more = { ...this.#more, response_dump: dump(answer) }
    if (this.#trail.place === 'file') return this.#trail.append(this.#made(status))
    if (this.#written !== status || this.#trail.detailed) await this.#store.commit([this.#write(status)])
  }

  async #with(writes: readonly Write[]): Promise<number> {
    if (this.#org === null) this.#writtenOrg = (await this.#orgOf(writes)) ?? ''
    const sequence = await this.#store.commit([...writes, this.#write(this.#success)])
    this.#written = this.#success
    return sequence
  }

  /** Behind doors that are bound to no organisation, a record is of the one that the first document belongs to. */
  async #orgOf(writes: readonly Write[]): Promise<string | undefined> {
    const [first] = writes
    if (first === undefined) return undefined
    return first.body === null ? (await this.#store.get(first.kind, first.id))?.org : first.org
  }

  #made(status: number): AuditRecord {
    return { ...this.#record, org_id: this.#org ?? this.#writtenOrg, status, ...this.#more }
  }

  #write(status: number): Write {
    const body = this.#made(status)
    return { kind: 'audit', id: body._id, org: body.org_id, body }
  }
}

function dump(body: unknown): string {
  if (body === undefined) return ''
  if (Buffer.isBuffer(body)) return `(${body.length} bytes)`
  if (typeof body === 'string') return `(${body.length} characters)`
  return JSON.stringify(masked(body) ?? null).slice(0, LONGEST_DUMP)
}
