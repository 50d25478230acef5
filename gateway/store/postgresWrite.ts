import type { Run } from './postgresPool.ts'
import { blockSize } from './postgresSchema.ts'
import { digestOf, everyOrg, toText } from './postgresText.ts'
import { raises } from './raise.ts'
import { Conflict, deletionsKept, type Kind, type Revision, type Sequence } from './store.ts'
import type { TextWrite } from './textWrite.ts'

interface Meta {
  sequence: Sequence
  ordinal: number
  deletion: number
  forgotten: Sequence
}

/** Where a document stands. */
interface Place {
  readonly ordinal: number
  readonly scope: string
  readonly rev: Revision
  /** JSON text; read only where a write asks whether it raises it. */
  readonly body: string | null
}

interface Present extends Place {
  readonly sequence: Sequence
  readonly org: string
  readonly body: string
}

/** A document that the group touches. */
interface Touched {
  readonly kind: Kind
  readonly id: string
  readonly digest: string
  /** A write needs the present body. */
  isRead: boolean
  readonly before: Place | null
  now: Place | Present | null
  /** The commit that deleted it last; 0: none of this group. */
  deleted: Sequence
}

/** One statement takes so many rows, and about so much text. */
const mostRows = 500
const mostText = 1024 * 1024

/**
 * One transaction for the commits of several callers, each with a sequence of its own, each all or nothing. As the lock of
 * `svc_meta` keeps all other writers out, conflicts are found here, and only what remains in the end is written.
 * @returns for each caller its sequence, or the Conflict that undid its writes
 * @throws Unavailable; the outcome is unknown only when COMMIT itself failed
 */
export async function commitGroup(
  run: Run,
  callers: readonly (readonly TextWrite[])[]
): Promise<(Sequence | Conflict)[]> {
  const [first] = await run('BEGIN; SELECT sequence, ordinal, deletion, forgotten FROM svc_meta FOR UPDATE')
  const [sequence, ordinal, deletion, forgotten] = first!.map(Number) as [number, number, number, number]
  const meta: Meta = { sequence, ordinal, deletion, forgotten }
  const documents = await present(run, callers)
  const results = callers.map(writes => apply(writes, documents, meta))
  const touched = [...documents.values()].filter(({ before, now, deleted }) => now !== before || deleted > 0)
  if (touched.length === 0) {
    await run('COMMIT')
    return results
  }
  await write(run, touched, meta)
  await count(run, touched)
  await run(`
    UPDATE svc_meta SET sequence = ${meta.sequence}, ordinal = ${meta.ordinal}, deletion = ${meta.deletion},
      forgotten = ${meta.forgotten};
    COMMIT`)
  return results
}

/** What the group writes to, by kind and id, as it stands. */
async function present(run: Run, callers: readonly (readonly TextWrite[])[]): Promise<Map<string, Touched>> {
  const documents = new Map<string, Touched>()
  const byDigest = new Map<string, string>()
  for (const { kind, id, raise } of callers.flat()) {
    const name = nameOf(kind, id)
    const isRead = raise !== undefined
    const known = documents.get(name)
    if (known !== undefined) {
      known.isRead ||= isRead
      continue
    }
    const digest = digestOf(id)
    documents.set(name, { kind, id, digest, isRead, before: null, now: null, deleted: 0 })
    byDigest.set(`${kind} ${digest}`, name)
  }
  for (const some of slices([...documents.values()], () => 0)) {
    const rows = await run(
      `SELECT d.kind, replace(d.digest::text, '-', ''), d.ordinal, replace(d.scope::text, '-', ''), d.rev,
        CASE WHEN wanted.body THEN d.body END
      FROM unnest($1::text[], $2::uuid[], $3::boolean[]) AS wanted (kind, digest, body) JOIN svc_documents d USING (kind, digest)`,
      [some.map(({ kind }) => kind), some.map(({ digest }) => digest), some.map(({ isRead }) => isRead)],
      'present'
    )
    for (const [kind, digest, ordinal, scope, rev, body] of rows) {
      const name = byDigest.get(`${kind} ${digest}`)!
      const before: Place = { ordinal: Number(ordinal), scope: scope!, rev: Number(rev), body: body! }
      documents.set(name, { ...documents.get(name)!, before, now: before })
    }
  }
  return documents
}

/** The writes of one caller; a Conflict leaves no trace of them. */
function apply(writes: readonly TextWrite[], documents: Map<string, Touched>, meta: Meta): Sequence | Conflict {
  const sequence = meta.sequence + 1
  const before = { ...meta }
  const undo: { one: Touched; now: Touched['now']; deleted: Sequence }[] = []
  for (const { kind, id, org, body, expect, raise } of writes) {
    const one = documents.get(nameOf(kind, id))!
    const { now, deleted } = one
    if (expect !== undefined && expect !== (now?.rev ?? 0)) {
      for (const { one, now, deleted } of undo.reverse()) Object.assign(one, { now, deleted })
      Object.assign(meta, before)
      return new Conflict(kind, id)
    }
    if (raise !== undefined && now !== null && !raises(JSON.parse(now.body!), raise)) continue
    undo.push({ one, now, deleted })
    if (body !== null) {
      const ordinal = now?.ordinal ?? ++meta.ordinal
      one.now = { ordinal, scope: digestOf(org), rev: (now?.rev ?? 0) + 1, sequence, org, body }
      meta.sequence = sequence
    } else if (now !== null) {
      one.now = null
      one.deleted = sequence
      meta.sequence = sequence
    }
  }
  return meta.sequence
}

async function write(run: Run, touched: readonly Touched[], meta: Meta): Promise<void> {
  const created = touched.filter(({ before, now }) => before === null && now !== null)
  const gone = touched.filter(({ now }) => now === null)
  const lengthOf = ({ now }: Touched) => (now as Present).body.length
  for (const some of slices(created, lengthOf)) {
    const rows = some.map(one => {
      const { ordinal, scope, rev, sequence, org, body } = one.now as Present
      return [ordinal, one.kind, one.digest, scope, rev, sequence, toText(one.id), toText(org), body]
    })
    await run(
      `INSERT INTO svc_documents (ordinal, kind, digest, scope, rev, sequence, id, org, body)
      VALUES ${rowsOf(rows)}`,
      rows.flat()
    )
  }
  const changed = touched.filter(({ before, now }) => before !== null && now !== null && now !== before)
  for (const some of slices(changed, lengthOf)) {
    const rows = some.map(({ before, now }) => {
      const { ordinal, scope, rev, sequence, org, body } = now as Present
      return [before!.ordinal, ordinal, scope, rev, sequence, toText(org), body]
    })
    await run(
      `UPDATE svc_documents d SET ordinal = n.ordinal, scope = n.scope, rev = n.rev, sequence = n.sequence, org = n.org,
        body = n.body
      FROM (VALUES ${rowsOf(rows, ['bigint', 'bigint', 'uuid', 'bigint', 'bigint', 'text', 'text'])})
        AS n (before, ordinal, scope, rev, sequence, org, body)
      WHERE d.ordinal = n.before`,
      rows.flat()
    )
  }
  const left = gone.flatMap(({ before }) => (before === null ? [] : [before.ordinal]))
  if (left.length > 0) await run('DELETE FROM svc_documents WHERE ordinal = ANY($1)', [left], 'delete')
  // What is there again was never deleted, for who asks.
  if (created.length > 0)
    await run(
      `DELETE FROM svc_deletions d USING unnest($1::text[], $2::uuid[]) AS back (kind, digest)
      WHERE d.kind = back.kind AND d.digest = back.digest`,
      [created.map(({ kind }) => kind), created.map(({ digest }) => digest)],
      'back'
    )
  if (gone.length > 0) await remember(run, gone, meta)
}

/** Keeps the last `deletionsKept`. */
async function remember(run: Run, gone: readonly Touched[], meta: Meta): Promise<void> {
  const inOrder = gone.toSorted((a, b) => a.deleted - b.deleted)
  for (const some of slices(inOrder, () => 0)) {
    const rows = some.map(({ kind, id, digest, deleted }) => [++meta.deletion, kind, digest, deleted, toText(id)])
    await run(
      `INSERT INTO svc_deletions (place, kind, digest, sequence, id) VALUES ${rowsOf(rows)}
      ON CONFLICT (kind, digest) DO UPDATE SET place = excluded.place, sequence = excluded.sequence`,
      rows.flat()
    )
  }
  const [last] = await run(
    `WITH forgotten AS (DELETE FROM svc_deletions WHERE place <= $1 RETURNING sequence)
    SELECT max(sequence) FROM forgotten`,
    [meta.deletion - deletionsKept],
    'forget'
  )
  if (last![0] !== null) meta.forgotten = Number(last![0])
}

/** Brings the block counts up to date, each touched block once. */
async function count(run: Run, touched: readonly Touched[]): Promise<void> {
  const sums = new Map<string, { readonly cells: readonly unknown[]; by: number }>()
  const move = (kind: Kind, { ordinal, scope }: Place, by: 1 | -1) => {
    for (const list of [everyOrg, scope]) {
      for (const level of [1, 2]) {
        const cells = [kind, list, level, Math.floor(ordinal / blockSize ** level)]
        const sum = sums.get(cells.join())
        if (sum === undefined) sums.set(cells.join(), { cells, by })
        else sum.by += by
      }
    }
  }
  for (const { kind, before, now } of touched) {
    if (before !== null) move(kind, before, -1)
    if (now !== null) move(kind, now, 1)
  }
  const rows = [...sums.values()].filter(({ by }) => by !== 0).map(({ cells, by }) => [...cells, by])
  for (const some of slices(rows, () => 0)) {
    await run(
      `INSERT INTO svc_blocks AS b (kind, scope, level, block, count) VALUES ${rowsOf(some)}
      ON CONFLICT (kind, scope, level, block) DO UPDATE SET count = b.count + excluded.count`,
      some.flat()
    )
  }
  const fewer = rows.filter(row => (row[4] as number) < 0)
  for (const some of slices(fewer, () => 0)) {
    await run(
      `DELETE FROM svc_blocks b USING (VALUES ${rowsOf(some, ['text', 'uuid', 'integer', 'bigint', 'bigint'])})
        AS n (kind, scope, level, block, count)
      WHERE (b.kind, b.scope, b.level, b.block) = (n.kind, n.scope, n.level, n.block) AND b.count = 0`,
      some.flat()
    )
  }
}

function nameOf(kind: Kind, id: string): string {
  return `${kind}\n${id}`
}

/** `($1, $2), ($3, $4)`; with types where PostgreSQL cannot guess them. */
function rowsOf(rows: readonly (readonly unknown[])[], types: readonly string[] = []): string {
  let n = 0
  const cell = (_: unknown, i: number) => `$${++n}${types[i] === undefined ? '' : `::${types[i]}`}`
  return rows.map(row => `(${row.map(cell).join()})`).join()
}

function* slices<T>(all: readonly T[], lengthOf: (one: T) => number): Generator<T[]> {
  let some: T[] = []
  let length = 0
  for (const one of all) {
    some.push(one)
    length += lengthOf(one)
    if (some.length < mostRows && length < mostText) continue
    yield some
    some = []
    length = 0
  }
  if (some.length > 0) yield some
}
