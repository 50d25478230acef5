import { blockSize, type Sql, scopeOf } from './sqliteSchema.ts'
import type { Kind, Query, Sequence, Walk } from './store.ts'

/**
 * What a reading gives piece by piece: a result as JSON text, or null where it found nothing for a while and others may
 * have a turn. Whoever drives it keeps one read transaction open meanwhile, so the whole is of one moment.
 */
export type Reading = Generator<string | null, number | null>

/** Documents of a page; returns the total. */
export function* list(sql: Sql, kind: Kind, query: Query): Reading {
  const { org, contains = '', newestFirst = false, idsOnly = false } = query
  const everything = query.page < 0
  const skip = everything ? 0 : (Math.max(query.page, 1) - 1) * query.size
  const count = everything ? Infinity : query.size
  const json = documentJson(idsOnly ? "'null'" : 'body')

  if (contains !== '') {
    const { total, blocks } = yield* search(sql, kind, org, contains)
    if (newestFirst) blocks.reverse()
    const one = sql(`SELECT ${json} AS json FROM documents WHERE ordinal = ?`)
    let [from, to] = [skip, skip + count]
    for (const places of blocks) {
      if (from < places.length && to > 0) {
        places.sort(newestFirst ? (a, b) => b - a : (a, b) => a - b)
        for (const place of places.slice(Math.max(0, from), to)) yield one.get(place)!.json as string
      }
      from -= places.length
      to -= places.length
    }
    return total
  }

  const scope = scopeOf(org)
  const total = sql('SELECT coalesce(sum(count), 0) AS total FROM blocks WHERE kind = ? AND scope = ? AND level = 2')
  const found = total.get(kind, scope)!.total as number
  if (skip >= found) return found
  const index = org === undefined ? 'documents_kind' : 'documents_org'
  const which = org === undefined ? 'kind = ?' : 'kind = ? AND org = ?'
  const of = org === undefined ? [kind] : [kind, org]
  const [beyond, order] = newestFirst ? ['<=', 'DESC'] : ['>=', 'ASC']

  // Down the levels to the block that holds the first document of the page, then along the index inside it.
  let rest = skip
  let inside = 0
  let outside = Number.MAX_SAFE_INTEGER
  for (const level of [2, 1]) {
    const counts = sql(
      `SELECT block, count FROM blocks WHERE kind = ? AND scope = ? AND level = ? AND block BETWEEN ? AND ? ORDER BY block ${order}`
    )
    for (const { block, count } of counts.iterate(kind, scope, level, inside, outside) as Iterable<Count>) {
      if (rest < count) {
        inside = block * blockSize
        outside = inside + blockSize - 1
        break
      }
      rest -= count
    }
  }
  const at = sql(
    `SELECT ordinal FROM documents INDEXED BY ${index} WHERE ${which} AND ordinal ${beyond} ? ORDER BY ordinal ${order} LIMIT 1 OFFSET ?`
  )
  const first = at.get(...of, newestFirst ? outside : inside, rest)!.ordinal as number
  const page = sql(
    `SELECT ${json} AS json FROM documents INDEXED BY ${index} WHERE ${which} AND ordinal ${beyond} ? ORDER BY ordinal ${order} LIMIT ?`
  )
  const rows = page.iterate(...of, first, Number.isFinite(count) ? count : -1)
  for (const row of rows) yield row.json as string
  return found
}

/** One slice of everything, after the document at the place `after`; returns the place of its last, null at the end. */
export function* walk(sql: Sql, kind: Kind, query: Walk, after: number | null): Reading {
  const { org, newestFirst = false, idsOnly = false } = query
  const index = org === undefined ? 'documents_kind' : 'documents_org'
  const which = org === undefined ? 'kind = ?' : 'kind = ? AND org = ?'
  const of = org === undefined ? [kind] : [kind, org]
  const [beyond, order, start] = newestFirst ? ['<', 'DESC', Number.MAX_SAFE_INTEGER] : ['>', 'ASC', 0]
  const rows = sql(
    `SELECT ordinal, ${documentJson(idsOnly ? "'null'" : 'body')} AS json FROM documents INDEXED BY ${index}
    WHERE ${which} AND ordinal ${beyond} ? ORDER BY ordinal ${order} LIMIT ?`
  )
  let length = 0
  let count = 0
  for (const { ordinal, json } of rows.iterate(...of, after ?? start, walkCount) as Iterable<Placed>) {
    yield json
    length += json.length
    if (++count === walkCount || length >= walkLength) return ordinal
  }
  return null
}

const walkCount = 500
const walkLength = 128 * 1024

interface Placed {
  readonly ordinal: number
  readonly json: string
}

interface Count {
  readonly block: number
  readonly count: number
}

/**
 * Places of the documents whose id contains the text, in blocks from old to new; not in order inside of a block, as
 * sorting a million at once would hold up everyone else.
 */
function* search(sql: Sql, kind: Kind, org: string | undefined, contains: string) {
  // Every 4096th place comes too, whether it matches or not, so that a search without hits still lets others have a turn.
  // Without an organisation to compare, the index alone answers.
  const wanted = org === undefined ? 'instr(id, ?2) > 0' : 'CASE WHEN instr(id, ?2) THEN org = ?3 ELSE 0 END'
  const matching = sql(`
    SELECT ordinal, ${wanted} AS wanted FROM documents INDEXED BY documents_id
    WHERE kind = ?1 AND (instr(id, ?2) OR ordinal % 4096 = 0)`)
  const of = org === undefined ? [kind, contains] : [kind, contains, org]
  const blocks = new Map<number, number[]>()
  let total = 0
  for (const { ordinal, wanted } of matching.iterate(...of) as unknown as Iterable<{
    ordinal: number
    wanted: number
  }>) {
    yield null
    if (wanted === 0) continue
    total++
    const at = Math.floor(ordinal / (16 * blockSize))
    const block = blocks.get(at)
    if (block === undefined) blocks.set(at, [ordinal])
    else block.push(ordinal)
  }
  const order = [...blocks.keys()].sort((a, b) => a - b)
  return { total, blocks: order.map(at => blocks.get(at)!) }
}

/** Changes after `sequence` of these kinds (null: all), oldest first; returns 0, or null where they cannot be told. */
export function* since(sql: Sql, sequence: Sequence, kinds: readonly Kind[] | null): Reading {
  const meta = sql('SELECT sequence, forgotten FROM meta').get() as { sequence: number; forgotten: number }
  if (sequence < meta.forgotten || sequence > meta.sequence) return null
  const which = `sequence > ?1 AND (?2 IS NULL OR kind IN (SELECT value FROM json_each(?2)))`
  const changes = sql(`
    SELECT sequence, ${changeJson('false')} AS json FROM documents WHERE ${which}
    UNION ALL SELECT sequence, ${changeJson('true')} FROM deletions WHERE ${which}
    ORDER BY sequence`)
  const wanted = kinds === null ? null : JSON.stringify(kinds)
  for (const change of changes.iterate(sequence, wanted)) yield change.json as string
  return 0
}

// Texts are put together in SQL, a third of the time that it takes here. In the order of `Document`, so that documents
// have one shape wherever they come from.
const documentJson = (body: string): string => `
  '{"kind":' || json_quote(kind) || ',"id":' || json_quote(id) || ',"org":' || json_quote(org) ||
  ',"rev":' || rev || ',"sequence":' || sequence || ',"body":' || ${body} || '}'`

const changeJson = (deleted: string): string => `
  '{"sequence":' || sequence || ',"kind":' || json_quote(kind) || ',"id":' || json_quote(id) || ',"deleted":${deleted}}'`
