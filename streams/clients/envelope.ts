import { isUtf8 } from 'node:buffer'
import type { Item } from '../hub/hub.ts'
import type { Arrived } from '../message.ts'
import type { DeliveryOptions } from '../options.ts'

/** Stands where a message is whose payload is not text, with `payload: error`. */
export const NOT_TEXT = 'payload_not_text'

/**
 * A message with what is known of it, as one line of JSON: `{"id","topic","partition","offset","ts","key","headers","value"}`.
 * `id` null: this one carries none. `ts`: milliseconds since the epoch. `key` and `value`: text or null; what is not UTF-8
 * is in base64, told by `"key_base64":true` and `"base64":true`. A value whose `content-type` is JSON stands as JSON, its
 * numbers as they were written. `headers`: those that the stream shows; a name that comes twice has a list.
 * @param type '' none, else the value of a leading member `type`
 */
export function envelope({ record, cursor }: Item, options: DeliveryOptions, type: '' | 'msg'): string {
  const { key, value } = record
  let text = type === '' ? '{' : `{"type":"${type}",`
  text += `"id":${JSON.stringify(cursor)},"topic":${JSON.stringify(record.topic)},"partition":${record.partition}`
  text += `,"offset":${record.offset},"ts":${record.timestamp},"key":`
  if (key === null) text += 'null'
  else if (isUtf8(key)) text += JSON.stringify(key.toString())
  else text += `"${key.toString('base64')}","key_base64":true`
  text += `,"headers":${headersOf(record, options.headers)},"value":`
  if (value === null) return `${text}null}`
  if (!isUtf8(value)) return `${text}"${value.toString('base64')}","base64":true}`
  return `${text}${valueText(value.toString(), record)}}`
}

/** What stands in the place of a payload that is not text. */
export function notText(cursor: string | null): string {
  return JSON.stringify({ type: 'error', code: NOT_TEXT, id: cursor })
}

/** First value of a header of a message, whatever the case of its name; `name` in lower case. */
export function headerValue({ headers }: Arrived, name: string): Buffer | null {
  for (let i = 0; i < headers.length; i++) {
    const given = headers[i]![0]
    if (given === name || given.toLowerCase() === name) return headers[i]![1]
  }
  return null
}

const JSON_TYPE = /^[^;,\s]{1,100}[/+]json\s*(?:;|$)/i

function valueText(text: string, record: Arrived): string {
  const type = headerValue(record, 'content-type')
  if (type === null || !JSON_TYPE.test(type.toString('latin1'))) return JSON.stringify(text)
  try {
    JSON.parse(text)
  } catch {
    return JSON.stringify(text)
  }
  // Inside of strings JSON has no raw line break, so those that are left part nothing but tokens.
  return text.replace(/[\r\n]/g, ' ')
}

function headersOf({ headers }: Arrived, shown: readonly string[]): string {
  if (shown.length === 0 || headers.length === 0) return '{}'
  const values = new Map<string, string[]>()
  for (const [name, value] of headers) {
    if (!shown.includes(name.toLowerCase())) continue
    const text = isUtf8(value) ? JSON.stringify(value.toString()) : `{"base64":"${value.toString('base64')}"}`
    const before = values.get(name)
    if (before === undefined) values.set(name, [text])
    else before.push(text)
  }
  const members: string[] = []
  for (const [name, texts] of values)
    members.push(`${JSON.stringify(name)}:${texts.length === 1 ? texts[0] : `[${texts.join(',')}]`}`)
  return `{${members.join(',')}}`
}
