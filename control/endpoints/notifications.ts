import { hash } from 'node:crypto'
import Type, { type Static } from 'typebox'
import type { CertificateRecord } from '../../gateway/certificates/certificates.ts'
import { DAY_MS, daysLeft, endingMessage } from '../../gateway/certificates/ending.ts'
import { calledName, lastTold, type Notice, nameOf, noticeLastsMs } from '../../gateway/certificates/notices.ts'
import { isFromFile } from '../../gateway/certificates/sweep.ts'
import { type Caller, orgOf } from '../caller.ts'
import { endOf, shownEnding } from '../certificates/expiry.ts'
import { type Endpoint, endpoint } from '../endpoint.ts'
import { LARGEST_PAGE, pageAsked, paging, slicePage } from '../page.ts'
import type { ControlTools } from '../tools.ts'

/** What the banner of a management interface shows (specification, Events 2; semantics §2.8). */

const strict = { additionalProperties: false } as const

const Notification = Type.Object(
  {
    id: Type.String({ description: 'The same as long as it tells the same of the same certificate' }),
    created_at: Type.String({ format: 'date-time', description: 'Since when it is so' }),
    org_id: Type.String(),
    hash: Type.String({ description: 'SHA-256 of what it tells; other once the certificate or its state is' }),
    kind: Type.Enum(['critical', 'warning'], { description: '`critical`: expired; `warning`: about to expire' }),
    topic: Type.Literal('certificate.expiry'),
    title: Type.String(),
    message: Type.String(),
    data: Type.Object(
      {
        cert_id: Type.String({ description: 'Of a PEM file that the settings name: its path' }),
        expiry_date: Type.String({ format: 'date-time' }),
        days_remaining: Type.Integer({ description: 'Whole days; 0 or below: days since' })
      },
      strict
    )
  },
  { ...strict, title: 'Notification' }
)
type Notification = Static<typeof Notification>

/** A certificate that may be one to tell of. */
interface Found {
  readonly id: string
  readonly fingerprint: string
  readonly name: string
  readonly expiresMs: number
}

const list = endpoint({
  method: 'GET',
  path: '/api/org/notifications',
  door: 'management',
  summary:
    'Certificates of the organisation that have expired or are about to, those first whose end is the earliest: stored ' +
    'ones, those that requests have shown lately, and (administrators of `default`) PEM files in use; without page_size ' +
    `pages have ${LARGEST_PAGE}`,
  params: Type.Object({}, strict),
  query: Type.Object(
    {
      ...paging,
      refresh: Type.Optional(
        Type.String({ maxLength: 64, description: 'Of no effect: the answer is always made anew' })
      )
    },
    strict
  ),
  bodyForm: 'none',
  body: Type.Unknown(),
  malformed: '',
  answer: Type.Array(Notification),
  async handle({ query, caller }, tools) {
    const org = orgOf(caller, undefined)
    const at = tools.clock.now()
    const told: Notification[] = []
    for await (const found of certificatesOf(org, caller, tools)) {
      const notification = notificationOf(found, org, at, tools)
      if (notification !== null) told.push(notification)
    }
    told.sort((a, b) => Date.parse(a.data.expiry_date) - Date.parse(b.data.expiry_date))
    return slicePage(told, pageAsked({ page_size: String(LARGEST_PAGE), ...query }, tools.settings))
  }
})

/** Each certificate once, wherever it was found first. */
async function* certificatesOf(org: string, caller: Caller, tools: ControlTools): AsyncGenerator<Found> {
  const { store, certificates, settings, clock } = tools
  const stored = new Set<string>()
  for await (const documents of store.each<CertificateRecord>('certificate', { org }))
    for (const { id, body } of documents) {
      const { fingerprint, subject, dns_names } = body.details
      const expiresMs = endOf(body.details)
      if (expiresMs === null || shownEnding(expiresMs, clock.now(), tools) === null) continue
      stored.add(fingerprint)
      yield { id, fingerprint, name: calledName(subject.CommonName, dns_names[0], fingerprint), expiresMs }
    }
  const lasts = noticeLastsMs(settings.gateway)
  // Without a role it was only found in the store, where it is no more.
  for await (const documents of store.each<Notice>('notice', { org }))
    for (const { body } of documents)
      if (body.role !== '' && !stored.has(body.fingerprint) && clock.now() - lastTold(body) <= lasts) yield body
  if (org !== 'default' || !caller.admin) return
  for (const { id, fingerprint, chain, expiresMs } of certificates.all().filter(isFromFile))
    if (!stored.has(fingerprint)) yield { id, fingerprint, name: nameOf(chain[0]!, fingerprint), expiresMs }
}

function notificationOf(
  { id, fingerprint, name, expiresMs }: Found,
  org: string,
  at: number,
  tools: ControlTools
): Notification | null {
  const ending = shownEnding(expiresMs, at, tools)
  if (ending === null) return null
  const { warning_threshold_days: days } = tools.settings.management.notifications.certificate_expiry_monitor
  const isOver = ending === 'CertificateExpired'
  const content = hash('sha256', JSON.stringify([ending, id, fingerprint]))
  return {
    id: content.slice(0, 24),
    created_at: timeOf(isOver ? expiresMs : expiresMs - days * DAY_MS),
    org_id: org,
    hash: content,
    kind: isOver ? 'critical' : 'warning',
    topic: 'certificate.expiry',
    title: isOver ? 'Certificate expired' : 'Certificate expires soon',
    message: endingMessage(ending, name, expiresMs, at),
    data: { cert_id: id, expiry_date: timeOf(expiresMs), days_remaining: daysLeft(expiresMs, at) }
  }
}

function timeOf(ms: number): string {
  return new Date(ms).toISOString().replace('.000Z', 'Z')
}

export const notifications: readonly Endpoint[] = [list]
