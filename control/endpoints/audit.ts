import Type, { type Static } from 'typebox'
import type { Document, Store } from '../../gateway/store/store.ts'
import type { AuditRecord } from '../audit.ts'
import { type Caller, owns } from '../caller.ts'
import { Answer, type Endpoint, endpoint, Refused, Streamed } from '../endpoint.ts'
import { listPage, pageAsked, pagesOf, paging, streamedList } from '../page.ts'

/** What writing calls left behind (semantics §2.8). */

const strict = { additionalProperties: false } as const
const Text = (description: string) => Type.Optional(Type.String({ maxLength: 1024, description }))
const Record = Type.Object(
  {
    _id: Type.String(),
    req_id: Type.String(),
    org_id: Type.String(),
    date: Type.String({ description: 'RFC 1123' }),
    timestamp: Type.String({ format: 'date-time' }),
    ip: Type.String(),
    user: Type.String({ description: 'E-mail address of the user, or the name of the secret that opened the door' }),
    action: Type.String(),
    method: Type.String(),
    url: Type.String({ description: 'Path and query, secrets masked' }),
    status: Type.Integer(),
    diff: Type.Optional(
      Type.Array(Type.Unknown(), { description: 'Of updates: JSON Patch (RFC 6902), secrets masked' })
    ),
    request_dump: Type.Optional(Type.String()),
    response_dump: Type.Optional(Type.String())
  },
  { ...strict, title: 'AuditRecord' }
)
const When = (description: string) =>
  Type.Optional(
    Type.String({ maxLength: 64, description: `${description}: ISO 8601, a date alone too, or Unix seconds` })
  )

const Filters = Type.Object(
  {
    ...paging,
    user: Text('Text in the user'),
    action: Text('Text in the action'),
    ip: Text('Address'),
    method: Text('Method, any case'),
    status: Type.Optional(Type.String({ pattern: '^[1-5](\\d\\d|xx)$', description: 'Status, or `4xx`' })),
    url: Text('Text in path and query'),
    from_date: When('Not before'),
    to_date: When('Not after; a date alone: its end'),
    download: Type.Optional(
      Type.String({ maxLength: 16, description: '`true` or `1`: a file with everything that matches' })
    ),
    type: Type.Optional(Type.Enum(['csv', 'json'], { description: 'Of the file; default: json' }))
  },
  strict
)
type Filters = Static<typeof Filters>

const common = { bodyForm: 'none', body: Type.Unknown(), malformed: '' } as const

/**
 * Users see the records of their organisation; the admin interface those of all, and of calls that were refused before
 * they had to do with any.
 */
const places = [
  { door: 'management', base: '/api/audit-logs' },
  { door: 'admin', base: '/admin/audit-logs' }
] as const

export const audit: readonly Endpoint[] = places.flatMap(({ door, base }) => [
  endpoint({
    ...common,
    door,
    method: 'GET',
    path: base,
    summary: 'Lists audit records, newest first',
    params: Type.Object({}, strict),
    query: Filters,
    gives: ['application/json', 'text/csv'],
    answer: Type.Object({ audit_logs: Type.Array(Record), pages: Type.Integer() }),
    async handle({ query, caller }, tools) {
      const matches = filter(query)
      const { download } = query
      if (/^(?:true|1)$/i.test(download ?? '')) return file(query.type ?? 'json', found(matches, caller, tools.store))
      if (matches.always) {
        const newest = { p: query.p, page_size: query.page_size, newestFirst: true }
        return listPage<AuditRecord>(tools, 'audit', caller.org, newest, 'audit_logs', ({ body }) => body)
      }
      const asked = pageAsked(query, tools.settings)
      if (asked.page < 0) return streamedList('audit_logs', 'pages', found(matches, caller, tools.store))
      const page: AuditRecord[] = []
      let total = 0
      for await (const record of found(matches, caller, tools.store)) {
        if (total >= (asked.page - 1) * asked.size && page.length < asked.size) page.push(record)
        total++
      }
      return { audit_logs: page, pages: pagesOf(total, asked) }
    }
  }),

  endpoint({
    ...common,
    door,
    method: 'GET',
    path: `${base}/{id}`,
    summary: 'Reads one audit record',
    params: Type.Object({ id: Type.String() }, strict),
    query: Type.Object({}, strict),
    answer: Record,
    async handle({ params, caller }, { store }) {
      const document = await store.get<AuditRecord>('audit', params.id)
      if (document === null || !owns(caller, document.org)) throw new Refused(404, 'could not retrieve audit record')
      return document.body
    }
  })
])

interface Matches {
  readonly always: boolean
  readonly from: string
  readonly to: string
  record(record: AuditRecord): boolean
}

/** @throws Refused 400 for a date that is none */
function filter({ user, action, ip, method, status, url, from_date, to_date }: Filters): Matches {
  const from = from_date ? time('from_date', from_date, 'start') : ''
  const to = to_date ? time('to_date', to_date, 'end') : ''
  return {
    always: [user, action, ip, method, status, url, from_date, to_date].every(each => !each),
    from,
    to,
    record: each =>
      (!user || each.user.toLowerCase().includes(user.toLowerCase())) &&
      (!action || each.action.toLowerCase().includes(action.toLowerCase())) &&
      (!ip || each.ip === ip) &&
      (!method || each.method === method.toUpperCase()) &&
      (!status || String(each.status).startsWith(status.replace('xx', ''))) &&
      (!url || each.url.includes(url)) &&
      (to === '' || each.timestamp <= to)
  }
}

function time(name: string, text: string, edge: 'start' | 'end'): string {
  const day = /^\d{4}-\d{2}-\d{2}$/.test(text)
  const ms = /^\d{1,12}$/.test(text)
    ? Number(text) * 1000
    : Date.parse(day && edge === 'end' ? `${text}T23:59:59.999Z` : text)
  if (Number.isNaN(ms) || Math.abs(ms) > 8.64e15)
    throw new Refused(400, `the query is not valid: /${name} must be a time: ISO 8601 or Unix seconds`)
  return new Date(ms).toISOString()
}

/** Newest first; records lie in the order of their making, so an old enough one ends the walk. */
async function* found({ from, record }: Matches, { org }: Caller, store: Store): AsyncGenerator<AuditRecord> {
  const which = { newestFirst: true, ...(org === null ? {} : { org }) }
  for await (const documents of store.each<AuditRecord>('audit', which) as AsyncIterable<
    readonly Document<AuditRecord>[]
  >)
    for (const { body } of documents) {
      if (from !== '' && body.timestamp < from) return
      if (record(body)) yield body
    }
}

const COLUMNS = [
  '_id',
  'req_id',
  'org_id',
  'date',
  'timestamp',
  'ip',
  'user',
  'action',
  'method',
  'url',
  'status',
  'diff'
] as const

function file(type: 'csv' | 'json', records: AsyncGenerator<AuditRecord>): Answer {
  const headers = { 'Content-Disposition': `attachment; filename="audit-logs.${type}"` }
  if (type === 'json') {
    const { body } = streamedList('audit_logs', 'pages', records)
    return new Answer(200, body, headers)
  }
  return new Answer(200, new Streamed(csv(records)), { ...headers, 'Content-Type': 'text/csv; charset=utf-8' })
}

/** RFC 4180. */
async function* csv(records: AsyncGenerator<AuditRecord>): AsyncGenerator<string> {
  yield `${COLUMNS.join(',')}\r\n`
  for await (const record of records) yield `${COLUMNS.map(name => cell(record[name])).join(',')}\r\n`
}

function cell(value: unknown): string {
  const text = value === undefined ? '' : typeof value === 'object' ? JSON.stringify(value) : String(value)
  // Spreadsheets run what begins like a formula.
  const safe = /^[=+\-@\t\r]/.test(text) ? `'${text}` : text
  return /[",\r\n]/.test(safe) ? `"${safe.replaceAll('"', '""')}"` : safe
}
