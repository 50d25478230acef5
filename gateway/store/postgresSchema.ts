import { Refused, type Run } from './postgresPool.ts'

/** Stands in `svc_schema`, so that another program's tables are not taken for ours. */
const application = 'svc-gateway'
/** Of the advisory lock under which one process at a time looks at the schema. */
const lock = 0x73766367
/** Of what the oldest supported PostgreSQL tells as `server_version_num`. */
const oldest = 130_000

/**
 * One entry a version, never changed once released. The tables lie in the first schema of the search path.
 *
 * `ordinal` is a document's place: it rises in the order of creation, over all kinds. `svc_blocks` counts the documents
 * whose ordinals share a block, on two levels, so that a page is found by adding up some thousand counts at most.
 * `digest` and `scope` are digests of id and organisation (`postgresText.ts`): an index entry has at most 2.7 KB.
 * Who commits locks the one row of `svc_meta`, so sequences become visible in their order.
 */
const migrations: readonly string[] = [
  `
  CREATE TABLE svc_schema (application text NOT NULL, version integer NOT NULL);
  INSERT INTO svc_schema VALUES ('${application}', 0);

  CREATE TABLE svc_meta (
    sequence bigint NOT NULL,
    ordinal bigint NOT NULL,
    deletion bigint NOT NULL, -- the newest place in svc_deletions
    forgotten bigint NOT NULL -- deletions up to this sequence may be forgotten
  ) WITH (fillfactor = 10);
  INSERT INTO svc_meta VALUES (0, 0, 0, 0);

  CREATE TABLE svc_documents (
    ordinal bigint PRIMARY KEY,
    kind text COLLATE "C" NOT NULL,
    digest uuid NOT NULL,
    scope uuid NOT NULL,
    rev bigint NOT NULL,
    sequence bigint NOT NULL,
    id text COLLATE "C" NOT NULL,
    org text COLLATE "C" NOT NULL,
    body text COLLATE "C" NOT NULL
  );
  CREATE UNIQUE INDEX svc_documents_id ON svc_documents (kind, digest);
  CREATE INDEX svc_documents_kind ON svc_documents (kind, ordinal);
  CREATE INDEX svc_documents_org ON svc_documents (kind, scope, ordinal);
  CREATE INDEX svc_documents_sequence ON svc_documents (sequence);

  CREATE TABLE svc_deletions (
    place bigint PRIMARY KEY,
    kind text COLLATE "C" NOT NULL,
    digest uuid NOT NULL,
    sequence bigint NOT NULL,
    id text COLLATE "C" NOT NULL
  );
  CREATE UNIQUE INDEX svc_deletions_id ON svc_deletions (kind, digest);
  CREATE INDEX svc_deletions_sequence ON svc_deletions (sequence);

  CREATE TABLE svc_blocks (
    kind text COLLATE "C" NOT NULL,
    scope uuid NOT NULL, -- an organisation's digest, or zeros for all
    level integer NOT NULL,
    block bigint NOT NULL, -- floor(ordinal / 1024 ** level)
    count bigint NOT NULL,
    PRIMARY KEY (kind, scope, level, block)
  ) WITH (fillfactor = 50);
  `
]

export const blockSize = 1024

/**
 * Brings the database to the newest version; two processes may do so at once.
 * @throws Refused: from a newer version, another program's tables, a server or an encoding that does not do
 */
export async function openSchema(run: Run): Promise<void> {
  await run('BEGIN')
  await run('SELECT pg_advisory_xact_lock($1)', [lock])
  const [server] = await run(`
    SELECT current_setting('server_version_num')::int, current_setting('server_version'), getdatabaseencoding(),
      current_schema()`)
  const [number, version, encoding, schema] = server as [string, string, string, string | null]
  if (Number(number) < oldest) throw new Refused(`PostgreSQL ${version} is too old, 13 is the oldest that does`)
  if (encoding !== 'UTF8') throw new Refused(`the database has the encoding ${encoding}, it must be UTF8`)
  if (schema === null) throw new Refused('the search path names no schema that exists')
  const applied = await versionOf(run, schema)
  if (applied > migrations.length)
    throw new Refused(`has schema version ${applied}, but this program knows only up to ${migrations.length}`)
  for (let next = applied; next < migrations.length; next++) {
    await run(migrations[next]!)
    await run(`UPDATE svc_schema SET version = ${next + 1}`)
  }
  // Who may not write, here or on this server, is told now and not by every call.
  await run('SELECT 1 FROM svc_meta FOR UPDATE')
  await run('COMMIT')
}

async function versionOf(run: Run, schema: string): Promise<number> {
  // Only what this user may see; who may see nothing is told so by the first statement that needs it.
  const columns = await run(
    `SELECT c.relname, string_agg(a.attname, ',' ORDER BY a.attname)
    FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
      JOIN pg_attribute a ON a.attrelid = c.oid AND a.attnum > 0 AND NOT a.attisdropped
    WHERE n.nspname = $1
      AND c.relname IN ('svc_schema', 'svc_meta', 'svc_documents', 'svc_deletions', 'svc_blocks')
    GROUP BY 1 ORDER BY 1`,
    [schema]
  )
  if (columns.length === 0) return 0
  const own = columns.find(([name]) => name === 'svc_schema')
  const rows = own?.[1] === 'application,version' ? await run('SELECT application, version FROM svc_schema') : []
  if (rows.length !== 1 || rows[0]![0] !== application)
    throw new Refused(`has tables of another program: ${columns.map(([name]) => name).join(', ')}`)
  return Number(rows[0]![1])
}
