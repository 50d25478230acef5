import { DatabaseSync, type StatementSync } from 'node:sqlite'

/** What stands in the file's header, so that another program's database is not taken for a store. */
const applicationId = 0x73766367

/**
 * One entry a version, never changed once released; the file counts the applied ones in `user_version`.
 *
 * `ordinal` is a document's place: it rises in the order of creation, over all kinds. `blocks` counts the documents whose
 * ordinals share a block, on two levels, so that a page is found by adding up some thousand counts at most.
 */
const migrations: readonly string[] = [
  `
  CREATE TABLE meta (
    sequence INTEGER NOT NULL,
    ordinal INTEGER NOT NULL,
    forgotten INTEGER NOT NULL -- deletions up to this sequence may be forgotten
  ) STRICT;
  INSERT INTO meta VALUES (0, 0, 0);

  CREATE TABLE documents (
    ordinal INTEGER PRIMARY KEY,
    kind TEXT NOT NULL,
    id TEXT NOT NULL,
    org TEXT NOT NULL,
    rev INTEGER NOT NULL,
    sequence INTEGER NOT NULL,
    body TEXT NOT NULL
  ) STRICT;
  CREATE UNIQUE INDEX documents_id ON documents (kind, id);
  -- Every index ends with the ordinal, unsaid.
  CREATE INDEX documents_kind ON documents (kind);
  CREATE INDEX documents_org ON documents (kind, org);
  CREATE INDEX documents_sequence ON documents (sequence);

  CREATE TABLE deletions (
    place INTEGER PRIMARY KEY,
    kind TEXT NOT NULL,
    id TEXT NOT NULL,
    sequence INTEGER NOT NULL
  ) STRICT;
  CREATE UNIQUE INDEX deletions_id ON deletions (kind, id);
  CREATE INDEX deletions_sequence ON deletions (sequence);

  CREATE TABLE blocks (
    kind TEXT NOT NULL,
    scope TEXT NOT NULL, -- see scopeOf
    level INTEGER NOT NULL,
    block INTEGER NOT NULL, -- floor(ordinal / 1024 ** level)
    count INTEGER NOT NULL,
    PRIMARY KEY (kind, scope, level, block)
  ) STRICT, WITHOUT ROWID;
  `
]

export const blockSize = 1024

/** The scope of block counts: one organisation, or undefined for all; no organisation's name can collide with "all". */
export const scopeOf = (org: string | undefined): string => (org === undefined ? '*' : `=${org}`)

/** Gives the prepared statement of a text, prepared once a connection. */
export type Sql = (text: string) => StatementSync

export interface Connection {
  readonly db: DatabaseSync
  readonly sql: Sql
}

function connection(db: DatabaseSync): Connection {
  const statements = new Map<string, StatementSync>()
  return {
    db,
    sql(text) {
      const prepared = statements.get(text)
      if (prepared !== undefined) return prepared
      const statement = db.prepare(text)
      statements.set(text, statement)
      return statement
    }
  }
}

/** For reading what is committed. `waitMs` bounds the rare wait for another process (readers never wait for writers). */
export function openReader(path: string, waitMs: number): Connection {
  const db = new DatabaseSync(path, { readOnly: true, timeout: waitMs })
  db.exec('PRAGMA cache_size = -8192')
  return connection(db)
}

/**
 * The one connection that writes; brings the file to the newest version.
 * @param maxBytes how large the file may grow; beyond it the disk counts as full
 * @throws Error naming the file: from a newer version, another program's, or no database at all
 */
export function openWriter(path: string, maxBytes: number | undefined): Connection {
  const db = new DatabaseSync(path, { timeout: 5_000 })
  try {
    const [version, application, tables] = [
      db.prepare('PRAGMA user_version').get()!.user_version as number,
      db.prepare('PRAGMA application_id').get()!.application_id as number,
      db.prepare('SELECT count(*) AS count FROM sqlite_schema').get()!.count as number
    ]
    if (tables > 0 && application !== applicationId) throw new Error("is another program's database")
    if (version > migrations.length) {
      throw new Error(`has schema version ${version}, but this program knows only up to ${migrations.length}`)
    }
    db.exec('PRAGMA journal_mode = WAL')
    // FULL: a commit that was answered is on the disk, also when the machine loses power.
    db.exec('PRAGMA synchronous = FULL')
    db.exec('PRAGMA cache_size = -65536')
    db.exec('PRAGMA wal_autocheckpoint = 4096')
    db.exec(`PRAGMA journal_size_limit = ${64 * 1024 * 1024}`)
    for (let next = version; next < migrations.length; next++) {
      const head = `PRAGMA application_id = ${applicationId}; PRAGMA user_version = ${next + 1};`
      db.exec(`BEGIN IMMEDIATE; ${migrations[next]}; ${head} COMMIT`)
    }
    if (maxBytes !== undefined) {
      const { page_size } = db.prepare('PRAGMA page_size').get() as { page_size: number }
      db.exec(`PRAGMA max_page_count = ${Math.max(1, Math.floor(maxBytes / page_size))}`)
    }
  } catch (cause) {
    db.close()
    throw new Error(`${path}: ${(cause as Error).message}`, { cause })
  }
  return connection(db)
}
