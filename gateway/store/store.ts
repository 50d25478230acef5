/**
 * The port behind which every kept document lies. `storeMemory`, `storeSqlite` and `storePostgres` pass
 * `test/contract/store.ts`.
 */

/**
 * The kinds of document; a new one is a new word here. `ledger` holds quota counters (`dump` of the counters), `access`
 * leads from the hash of an access key to its user, `name` from a name that must be unique to the document that has it;
 * `stream_log` is what embedded brokers keep (`streamLog.ts`); a change of a `flush` tells whoever remembers fetched key
 * sets to forget them (`gateway/jwks/flushes.ts`); `notice` is what was told of a certificate's end (`certificates/notices.ts`).
 */
export type Kind =
  | 'key'
  | 'policy'
  | 'api'
  | 'organisation'
  | 'ledger'
  | 'asset'
  | 'user'
  | 'group'
  | 'access'
  | 'name'
  | 'certificate'
  | 'hook'
  | 'audit'
  | 'revision'
  | 'portal_organisation'
  | 'portal_user'
  | 'stream_log'
  | 'flush'
  | 'notice'

/** Counts the writes onto one document, from 1; a document that is deleted and created again begins anew. */
export type Revision = number
/** Counts the commits of one store, from 1; 0 is before the first. */
export type Sequence = number

export interface Document<T = unknown> {
  readonly kind: Kind
  readonly id: string
  /** The organisation it belongs to; '' for kinds that belong to none. */
  readonly org: string
  readonly rev: Revision
  /** The commit that wrote it. */
  readonly sequence: Sequence
  /** Plain JSON. Treat as frozen: it may be shared with other readers. */
  readonly body: T
}

/** What a document of kind `ledger` holds: one quota counter, as the counters dump it. */
export interface Count {
  readonly id: string
  readonly count: number
  /** Milliseconds since the epoch at which the period ends; 0: never. */
  readonly renews: number
}

export type Write =
  /** Creates or replaces. `expect` refuses (`Conflict`) another present revision; 0: must not exist yet. */
  | {
      readonly kind: Kind
      readonly id: string
      readonly org: string
      readonly body: unknown
      readonly expect?: Revision
      readonly raise?: undefined
    }
  /** Deletes; deleting what is absent changes nothing. */
  | {
      readonly kind: Kind
      readonly id: string
      readonly body: null
      readonly expect?: Revision
      readonly raise?: undefined
    }
  /**
   * Creates, or replaces where the kept period ends earlier (0, never, is the latest), or is the same with a lower count;
   * otherwise changes nothing. So processes that count the same quota may write in any order.
   */
  | {
      readonly kind: 'ledger'
      readonly id: string
      readonly org: string
      readonly body: Count
      readonly expect?: undefined
      readonly raise: true
    }

/** A write met another revision than it expected; nothing of its commit was written. */
export class Conflict extends Error {
  readonly kind: Kind
  readonly id: string
  constructor(kind: Kind, id: string) {
    super(`${kind} ${id} has another revision`)
    this.kind = kind
    this.id = id
  }
}

/**
 * The file is gone, the server is away: nothing was acknowledged (a commit may still have happened
 * when the medium failed after it). The store works again by itself once the medium does. Answered 503 by `control`.
 */
export class Unavailable extends Error {}

/**
 * The medium has no room for a commit, and nothing of it was written; reads go on. Smaller commits may still fit. Passes
 * by itself once there is room. Answered 507 by `control`.
 */
export class Full extends Unavailable {}

export interface Query {
  /** Only documents of this organisation. */
  readonly org?: string
  /** Only documents whose id contains this text, case counts; '' as if absent (scans; not bound by the page time). */
  readonly contains?: string
  /** Page from 1; 0 is page 1; a page past the end is empty. Below 0: everything, whatever `size` says. */
  readonly page: number
  readonly size: number
  /** By time of creation; default oldest first. */
  readonly newestFirst?: boolean
  /** Ids alone (bodies come as null): cheaper for lists of ids. */
  readonly idsOnly?: boolean
}

/** As in `Query`. */
export type Walk = Pick<Query, 'org' | 'newestFirst' | 'idsOnly'>

export interface Page<T = unknown> {
  readonly documents: readonly Document<T>[]
  /** All documents that the query selects, on every page. */
  readonly total: number
}

export interface Change {
  readonly sequence: Sequence
  readonly kind: Kind
  readonly id: string
  readonly deleted: boolean
}

export interface Stand {
  readonly sequence: Sequence
  /**
   * Another text once another server may answer (restarted, promoted, emptied, put back): writes that were read before may
   * be lost there, and their sequences be given out a second time.
   */
  readonly origin: string
}

/** So many deletions are remembered at most; see `Store.since`. */
export const deletionsKept = 100_000

export interface Store {
  /**
   * A point read of what is committed. Synchronous where the store can do it in microseconds.
   * @throws Unavailable at once (not as a promise) where the read is synchronous
   */
  get<T = unknown>(kind: Kind, id: string): Document<T> | null | Promise<Document<T> | null>
  /** One moment's state, however long the reading takes. An update keeps a document's place; created again, it is the newest. */
  list<T = unknown>(kind: Kind, query: Query): Promise<Page<T>>
  /**
   * Everything, in slices of at most some hundred documents, by creation (oldest first by default); for what can be
   * large. `list` below page 0 holds all documents at once, and at 1,000,000 their garbage collection stops requests for up to
   * 100 ms; here nothing is held, neither memory nor a moment: each slice shows the state when it was read, and what
   * existed throughout comes exactly once. Leaving the loop early costs nothing.
   */
  each<T = unknown>(kind: Kind, query: Walk): AsyncIterable<readonly Document<T>[]>
  /**
   * All writes or none, in their order; when it resolves, they survive `kill -9`. Readers see them from then on. A
   * commit that changes nothing (only deletions of what is absent) gives the newest sequence and raises none. Bodies
   * must not change until it resolves. Who needs two commits in an order waits for the first.
   * @throws Conflict when an expected revision is not the present one; Unavailable when the medium fails; Full
   */
  commit(writes: readonly Write[]): Promise<Sequence>
  /**
   * Changes after `sequence`, oldest first, each document once with its newest state. Null: the changes cannot be told
   * (deletions after `sequence` are forgotten, or this store never gave it out): forget what you hold and read anew.
   * @param kinds only changes of these; absent: all
   */
  since(sequence: Sequence, kinds?: readonly Kind[]): Promise<readonly Change[] | null>
  /** The newest sequence: every commit up to it is visible to whoever asks `since` afterwards. */
  sequence(): Promise<Sequence>
  /** As `sequence`, for who follows changes. Absent: acknowledged writes cannot get lost while this process runs. */
  stand?(): Promise<Stand>
  /** Ends after what was acknowledged is safe; what is under way ends or is Unavailable, as is everything afterwards. */
  close(): Promise<void>
}
