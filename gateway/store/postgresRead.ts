import { parseExact } from '../../config/exactJson.ts'
import type { Row, Run } from './postgresPool.ts'
import { blockSize } from './postgresSchema.ts'
import { digestOf, everyOrg, fromText, toText } from './postgresText.ts'
import type { Change, Document, Kind, Query, Sequence, Stand, Walk } from './store.ts'

/** What a list selects: `contains` '' for all. */
type Selection = Walk & Pick<Query, 'contains'>

const columns = (idsOnly: boolean | undefined) =>
  `ordinal, id, org, rev, sequence, ${idsOnly ? "'null'" : 'body'} AS body`

/** From a row of `columns`. */
export function documentOf<T>(kind: Kind, [, id, org, rev, sequence, body]: Row): Document<T> {
  // In the order of `Document`, so that documents have one shape wherever they come from.
  return {
    kind,
    id: fromText(id!),
    org: fromText(org!),
    rev: Number(rev),
    sequence: Number(sequence),
    body: parseExact(body!) as T
  }
}

export async function get<T>(run: Run, kind: Kind, id: string): Promise<Document<T> | null> {
  const text = 'SELECT 0, id, org, rev, sequence, body FROM svc_documents WHERE kind = $1 AND digest = $2'
  const [row] = await run(text, [kind, digestOf(id)], 'get')
  return row === undefined ? null : documentOf(kind, row)
}

/** Conditions on `svc_documents`, whose values begin `values`: $1 is the kind. */
function which({ org, contains = '' }: Selection, kind: Kind) {
  const values: unknown[] = [kind]
  let where = 'kind = $1'
  if (org !== undefined) where += ` AND scope = $${values.push(digestOf(org))}`
  if (contains !== '') where += ` AND strpos(id, $${values.push(toText(contains))}) > 0`
  return { where, values }
}

/**
 * A short page in one statement, so it is of one moment: down the levels of the counts to the block that holds the first
 * document of the page, then along the index inside it.
 */
export async function page(run: Run, kind: Kind, query: Query): Promise<{ rows: readonly Row[]; total: number }> {
  const { newestFirst = false, contains = '' } = query
  const { where, values } = which(query, kind)
  const [beyond, order] = newestFirst ? ['<=', 'DESC'] : ['>=', 'ASC']
  const skip = `$${values.push(skipOf(query))}::bigint`
  const size = `$${values.push(query.size)}::bigint`
  const cells = columns(query.idsOnly)
  if (contains !== '') {
    return totalled(
      await run(
        `WITH hits AS MATERIALIZED (SELECT ordinal FROM svc_documents WHERE ${where})
        SELECT (SELECT count(*) FROM hits) AS total, page.*
        FROM (SELECT 1) AS one LEFT JOIN (
          SELECT ${cells} FROM svc_documents
          WHERE ordinal IN (SELECT ordinal FROM hits ORDER BY ordinal ${order} LIMIT ${size} OFFSET ${skip})
        ) AS page ON true ORDER BY ordinal ${order}`,
        values
      )
    )
  }
  const scope = `$${values.push(query.org === undefined ? everyOrg : digestOf(query.org))}::uuid`
  const edge = newestFirst ? `block * ${blockSize} + ${blockSize - 1}` : `block * ${blockSize}`
  const counted = (level: number) => `
    SELECT block, count, sum(count) OVER (ORDER BY block ${order}) - count AS before
    FROM svc_blocks WHERE kind = $1 AND scope = ${scope} AND level = ${level}`
  return totalled(
    await run(
      `WITH outer_counts AS MATERIALIZED (${counted(2)}),
      outer_block AS MATERIALIZED (
        SELECT block, before FROM outer_counts WHERE before <= ${skip} AND ${skip} < before + count
      ),
      inner_counts AS (${counted(1)}
        AND block >= (SELECT block * ${blockSize} FROM outer_block)
        AND block < (SELECT (block + 1) * ${blockSize} FROM outer_block)
      ),
      first AS MATERIALIZED (
        SELECT i.block, ${skip} - o.before - i.before AS rest FROM inner_counts i, outer_block o
        WHERE o.before + i.before <= ${skip} AND ${skip} < o.before + i.before + i.count
      )
      SELECT (SELECT coalesce(sum(count), 0) FROM outer_counts) AS total, page.*
      FROM (SELECT 1) AS one LEFT JOIN (
        SELECT ${cells} FROM svc_documents
        WHERE ${where} AND ordinal ${beyond} (SELECT ${edge} FROM first)
        ORDER BY ordinal ${order} LIMIT ${size} OFFSET (SELECT rest FROM first)
      ) AS page ON true ORDER BY ordinal ${order}`,
      values
    )
  )
}

function totalled(rows: readonly Row[]): { rows: readonly Row[]; total: number } {
  const [, ...first] = rows[0]!
  return { total: Number(rows[0]![0]), rows: first[0] === null ? [] : rows.map(([, ...cells]) => cells) }
}

function skipOf({ page, size }: Query): number {
  return page < 0 ? 0 : (Math.max(page, 1) - 1) * size
}

/** A part of a walk. */
export interface Slice {
  readonly rows: readonly Row[]
  /** The place of its last document; null: nothing follows. */
  readonly after: number | null
}

/** One slice after the document at the place `after` (null: from the beginning). */
export async function walk(run: Run, kind: Kind, query: Selection, after: number | null): Promise<Slice> {
  const { newestFirst = false, idsOnly } = query
  const { where, values } = which(query, kind)
  const [beyond, order] = newestFirst ? ['<', 'DESC'] : ['>', 'ASC']
  const from = `$${values.push(after ?? (newestFirst ? Number.MAX_SAFE_INTEGER : 0))}::bigint`
  // Stored lengths, which do not need the bodies read.
  const rows = await run(
    `SELECT ordinal, id, org, rev, sequence, body, found FROM (
      SELECT *, count(*) OVER () AS found, sum(length) OVER (ORDER BY ordinal ${order}) - length AS before FROM (
        SELECT ${columns(idsOnly)}, ${idsOnly ? '0' : 'pg_column_size(body)'} AS length FROM svc_documents
        WHERE ${where} AND ordinal ${beyond} ${from} ORDER BY ordinal ${order} LIMIT ${walkCount}
      ) AS read
    ) AS slice WHERE before < ${walkLength} ORDER BY ordinal ${order}`,
    values
  )
  const last = rows.at(-1)
  if (last === undefined) return { rows, after: null }
  const found = Number(last[6])
  return { rows, after: found < walkCount && rows.length === found ? null : Number(last[0]) }
}

const walkCount = 200
const walkLength = 64 * 1024

/** How many documents there are, and the place before the first of a long page; for one transaction with `walk`. */
export async function start(run: Run, kind: Kind, query: Query): Promise<{ total: number; after: number | null }> {
  const { newestFirst = false, contains = '' } = query
  const skip = skipOf(query)
  if (contains === '') {
    const { rows, total } = await page(run, kind, { ...query, page: skip + 1, size: 1, idsOnly: true })
    const [first] = rows
    return { total, after: first === undefined ? null : Number(first[0]) + (newestFirst ? 1 : -1) }
  }
  const { where, values } = which(query, kind)
  const [count] = await run(`SELECT count(*) FROM svc_documents WHERE ${where}`, values)
  const total = Number(count![0])
  if (skip === 0 || skip >= total) return { total, after: null }
  const [before] = await run(
    `SELECT ordinal FROM svc_documents WHERE ${where} ORDER BY ordinal ${newestFirst ? 'DESC' : 'ASC'} LIMIT 1
    OFFSET $${values.push(skip - 1)}`,
    values
  )
  return { total, after: Number(before![0]) }
}

/** Places of a long page's documents begin behind `start`; this tells how many of them the page has. */
export function lengthOf(query: Query, total: number): number {
  return query.page < 0 ? total : Math.max(0, Math.min(query.size, total - skipOf(query)))
}

/** Changes after `sequence`, oldest first; null where they cannot be told. */
export async function since(run: Run, sequence: Sequence, kinds: readonly Kind[] | null): Promise<Change[] | null> {
  // No index is to be walked for the kinds: they may have a million documents.
  const which = "sequence > $1 AND ($2::text[] IS NULL OR kind || '' = ANY ($2))"
  const [meta, ...changes] = await run(
    `SELECT sequence, NULL, (forgotten <= $1 AND $1 <= sequence)::int::text, false, 0 AS part FROM svc_meta
    UNION ALL SELECT sequence, kind, id, false, 1 FROM svc_documents WHERE ${which}
    UNION ALL SELECT sequence, kind, id, true, 1 FROM svc_deletions WHERE ${which}
    ORDER BY part, sequence`,
    [sequence, kinds],
    'since'
  )
  if (meta![2] !== '1') return null
  return changes.map(([sequence, kind, id, deleted]) => ({
    sequence: Number(sequence),
    kind: kind as Kind,
    id: fromText(id!),
    deleted: deleted === 't'
  }))
}

export async function newest(run: Run): Promise<Sequence> {
  const [row] = await run('SELECT sequence FROM svc_meta', [], 'sequence')
  return Number(row![0])
}

export async function stand(run: Run): Promise<Stand> {
  // A database that was put back has another start of its server, or its table another number.
  const text = "SELECT sequence, tableoid::text || ' ' || pg_postmaster_start_time() FROM svc_meta"
  const [row] = await run(text, [], 'stand')
  return { sequence: Number(row![0]), origin: row![1]! }
}
