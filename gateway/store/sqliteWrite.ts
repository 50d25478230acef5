import { raises } from './raise.ts'
import { blockSize, type Connection, type Sql, scopeOf } from './sqliteSchema.ts'
import { Conflict, deletionsKept, type Kind, type Revision, type Sequence } from './store.ts'
import type { TextWrite } from './textWrite.ts'

/** A document came to (`by` 1) or left (-1) an organisation's list, or the list of all (undefined). */
interface Move {
  readonly kind: Kind
  readonly org: string | undefined
  readonly ordinal: number
  readonly by: 1 | -1
}

/**
 * One transaction for the commits of several callers, each with a sequence of its own, each all or nothing.
 * @returns for each caller its sequence, or the Conflict that undid its writes
 * @throws what SQLite throws; nothing is written then
 */
export function commitGroup(
  { db, sql }: Connection,
  callers: readonly (readonly TextWrite[])[]
): (Sequence | Conflict)[] {
  // Left over when a failing disk let not even the last ROLLBACK through.
  if (db.isTransaction) db.exec('ROLLBACK')
  db.exec('BEGIN IMMEDIATE')
  try {
    const meta = { ...sql('SELECT sequence, ordinal, forgotten FROM meta').get() } as unknown as Meta
    const moves: Move[] = []
    const results = callers.map(writes => {
      const before = { ...meta }
      const moved = moves.length
      sql('SAVEPOINT caller').run()
      try {
        for (const write of writes) {
          if (apply(sql, write, before.sequence + 1, meta, moves)) meta.sequence = before.sequence + 1
        }
        sql('RELEASE caller').run()
        return meta.sequence
      } catch (error) {
        if (!(error instanceof Conflict)) throw error
        sql('ROLLBACK TO caller').run()
        sql('RELEASE caller').run()
        Object.assign(meta, before)
        moves.length = moved
        return error
      }
    })
    count(sql, moves)
    if (moves.some(move => move.by === -1)) meta.forgotten = forgetDeletions(sql, meta.forgotten)
    sql('UPDATE meta SET sequence = ?, ordinal = ?, forgotten = ?').run(meta.sequence, meta.ordinal, meta.forgotten)
    db.exec('COMMIT')
    return results
  } catch (error) {
    // SQLite has sometimes rolled back by itself already, for instance when the disk is full.
    if (db.isTransaction) db.exec('ROLLBACK')
    throw error
  }
}

interface Meta {
  sequence: Sequence
  ordinal: number
  forgotten: Sequence
}

interface Present {
  readonly ordinal: number
  readonly org: string
  readonly rev: Revision
}

/** Whether it changed anything. */
function apply(sql: Sql, write: TextWrite, sequence: Sequence, meta: Meta, moves: Move[]): boolean {
  const { kind, id, org, body, expect, raise } = write
  const select = sql('SELECT ordinal, org, rev FROM documents WHERE kind = ? AND id = ?')
  const present = select.get(kind, id) as Present | undefined
  if (expect !== undefined && expect !== (present?.rev ?? 0)) throw new Conflict(kind, id)

  if (body === null) {
    if (present === undefined) return false
    const { ordinal } = present
    sql('DELETE FROM documents WHERE ordinal = ?').run(ordinal)
    sql('INSERT INTO deletions (kind, id, sequence) VALUES (?, ?, ?)').run(kind, id, sequence)
    moves.push({ kind, org: undefined, ordinal, by: -1 }, { kind, org: present.org, ordinal, by: -1 })
    return true
  }
  if (present === undefined) {
    const ordinal = ++meta.ordinal
    sql('DELETE FROM deletions WHERE kind = ? AND id = ?').run(kind, id)
    sql('INSERT INTO documents VALUES (?, ?, ?, ?, 1, ?, ?)').run(ordinal, kind, id, org, sequence, body)
    moves.push({ kind, org: undefined, ordinal, by: 1 }, { kind, org, ordinal, by: 1 })
    return true
  }
  const { ordinal } = present
  if (raise !== undefined) {
    const kept = sql('SELECT body FROM documents WHERE ordinal = ?').get(ordinal)!.body as string
    if (!raises(JSON.parse(kept), raise)) return false
  }
  const update = sql('UPDATE documents SET org = ?, rev = rev + 1, sequence = ?, body = ? WHERE ordinal = ?')
  update.run(org, sequence, body, ordinal)
  if (org !== present.org) moves.push({ kind, org: present.org, ordinal, by: -1 }, { kind, org, ordinal, by: 1 })
  return true
}

/** Brings the block counts up to date, each touched block once. */
function count(sql: Sql, moves: readonly Move[]): void {
  const blocks = new Map<string, { kind: Kind; scope: string; level: number; block: number; by: number }>()
  for (const { kind, org, ordinal, by } of moves) {
    const scope = scopeOf(org)
    for (const level of [1, 2]) {
      const block = Math.floor(ordinal / blockSize ** level)
      const name = `${kind} ${level} ${block} ${scope}`
      const sum = blocks.get(name)
      if (sum === undefined) blocks.set(name, { kind, scope, level, block, by })
      else sum.by += by
    }
  }
  for (const { kind, scope, level, block, by } of blocks.values()) {
    if (by === 0) continue
    sql(`INSERT INTO blocks VALUES (?, ?, ?, ?, ?)
      ON CONFLICT DO UPDATE SET count = count + excluded.count`).run(kind, scope, level, block, by)
    if (by < 0) {
      sql('DELETE FROM blocks WHERE kind = ? AND scope = ? AND level = ? AND block = ? AND count = 0').run(
        kind,
        scope,
        level,
        block
      )
    }
  }
}

/** Keeps the last `deletionsKept`; returns the sequence up to which deletions may be forgotten. */
function forgetDeletions(sql: Sql, forgotten: Sequence): Sequence {
  const newest = (sql('SELECT max(place) AS place FROM deletions').get()!.place as number | null) ?? 0
  const last = sql('SELECT max(sequence) AS sequence FROM deletions WHERE place <= ?').get(newest - deletionsKept)!
  if (last.sequence === null) return forgotten
  sql('DELETE FROM deletions WHERE place <= ?').run(newest - deletionsKept)
  return last.sequence as number
}
