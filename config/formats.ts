import { isIPv4, isIPv6 } from 'node:net'

/** The formats that foreign schemas are held to; any other is a remark. Each looks at a text once, without backtracking. */
export const textFormats: Readonly<Record<string, (text: string) => boolean>> = {
  date: isDate,
  'date-time': isDateTime,
  time: isTime,
  email: isEmail,
  uuid: text => /^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$/i.test(text),
  // RFC 3986: a scheme, and nothing that must be escaped.
  uri: text => /^[a-z][a-z0-9+.-]*:(?:[\w\-.~:/?#[\]@!$&'()*+,;=]|%[0-9a-f]{2})*$/i.test(text) && URL.canParse(text),
  ipv4: isIPv4,
  ipv6: text => !text.includes('%') && isIPv6(text),
  hostname: text =>
    text.length <= 253 && text.split('.').every(label => /^[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?$/i.test(label))
}

export const numberFormats: Readonly<Record<string, (value: number) => boolean>> = {
  int32: value => Number.isInteger(value) && value >= -(2 ** 31) && value < 2 ** 31,
  // The largest int64 is read as 2^63.
  int64: value => Number.isInteger(value) && Math.abs(value) <= 2 ** 63
}

const DAYS = [31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31]

/** RFC 3339 §5.6 `full-date`. */
function isDate(text: string): boolean {
  const parts = /^(\d{4})-(\d\d)-(\d\d)$/.exec(text)
  if (parts === null) return false
  const [year, month, day] = parts.slice(1).map(Number) as [number, number, number]
  const leap = year % 4 === 0 && (year % 100 !== 0 || year % 400 === 0)
  return month >= 1 && month <= 12 && day >= 1 && day <= (month === 2 && leap ? 29 : DAYS[month - 1]!)
}

/** RFC 3339 §5.6 `full-time`; second 60 is a leap second. */
function isTime(text: string): boolean {
  const parts = /^(\d\d):(\d\d):(\d\d)(?:\.\d+)?(?:z|[+-](\d\d):(\d\d))$/i.exec(text)
  if (parts === null) return false
  const [hour, minute, second, offsetHour, offsetMinute] = parts.slice(1).map(part => Number(part ?? 0)) as number[]
  return hour! < 24 && minute! < 60 && second! <= 60 && offsetHour! < 24 && offsetMinute! < 60
}

function isDateTime(text: string): boolean {
  return /[t ]/i.test(text[10] ?? '') && isDate(text.slice(0, 10)) && isTime(text.slice(11))
}

function isEmail(text: string): boolean {
  const at = text.lastIndexOf('@')
  const name = text.slice(0, at)
  return (
    at > 0 &&
    at <= 64 &&
    /^[\w!#$%&'*+/=?^`{|}~.-]+$/.test(name) &&
    !/^\.|\.\.|\.$/.test(name) &&
    textFormats.hostname!(text.slice(at + 1))
  )
}
