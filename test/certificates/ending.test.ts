import t from 'tap'
import { daysLeft, endingMessage, endingOf } from '../../gateway/certificates/ending.ts'

const DAY = 86_400_000
const HOUR = 3_600_000
const AT = Date.UTC(2030, 0, 1)

t.test('the state of a certificate by what is left, with a threshold of 30 days', async t => {
  for (const [left, ending] of [
    [-1, 'CertificateExpired'],
    [0, 'CertificateExpired'],
    [1, 'CertificateExpiringSoon'],
    [30 * DAY, 'CertificateExpiringSoon'],
    [30 * DAY + 1, null],
    [Number.POSITIVE_INFINITY, null],
    [Number.NaN, null]
  ] as const)
    t.equal(endingOf(AT + left, AT, 30), ending, `${left}`)
})

t.test('messages: a part that is 0 is left out', async t => {
  for (const [left, text] of [
    [2 * DAY + 3 * HOUR, 'expiring in 2 days and 3 hours'],
    [DAY + HOUR, 'expiring in 1 days and 1 hours'],
    [2 * DAY, 'expiring in 2 days'],
    [2 * DAY + HOUR - 1, 'expiring in 2 days'],
    [3 * HOUR, 'expiring in 3 hours'],
    [HOUR - 1, 'expiring in 0 hours'],
    [0, 'expired since 0 hours'],
    [-HOUR, 'expired since 1 hours'],
    [-2 * DAY, 'expired since 2 days'],
    [-(2 * DAY + 3 * HOUR), 'expired since 2 days and 3 hours']
  ] as const)
    t.equal(
      endingMessage(left > 0 ? 'CertificateExpiringSoon' : 'CertificateExpired', 'a', AT + left, AT),
      `Certificate a is ${text}`
    )
})

t.test('whole days that are left', async t => {
  for (const [left, days] of [
    [2 * DAY - 1, 1],
    [DAY, 1],
    [1, 0],
    [-1, 0],
    [-DAY, -1],
    [-2 * DAY + 1, -1]
  ] as const)
    t.ok(Object.is(daysLeft(AT + left, AT), days), `${left}`)
})
