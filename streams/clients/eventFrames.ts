import { isUtf8 } from 'node:buffer'
import type { Item } from '../hub/hub.ts'
import type { Arrived } from '../message.ts'
import type { DeliveryOptions } from '../options.ts'
import { envelope, headerValue, NOT_TEXT } from './envelope.ts'

/** Bytes of server-sent events (WHATWG HTML §9.2), and of the chunks that carry them (RFC 9112 §7.1). */

const EMPTY = Buffer.alloc(0)

/** Text around a payload, in one buffer; as a whole chunk of a response when `isChunked`. */
export function around(before: string, payload: Buffer, after: string, isChunked: boolean): Buffer {
  const length = Buffer.byteLength(before) + payload.length + Buffer.byteLength(after)
  const head = isChunked ? `${length.toString(16)}\r\n${before}` : before
  const tail = isChunked ? `${after}\r\n` : after
  const bytes = Buffer.allocUnsafe(Buffer.byteLength(head) + payload.length + Buffer.byteLength(tail))
  const at = bytes.write(head)
  payload.copy(bytes, at)
  bytes.write(tail, at + payload.length)
  return bytes
}

/** Event of our own making: `data` is one line. */
export function event(name: string, id: string | null, data: string): string {
  return `${id === null ? '' : `id: ${id}\n`}event: ${name}\ndata: ${data}\n\n`
}

/** One message as one event; empty: it has none (facts/streams §4.8). */
export function eventFrame(item: Item, options: DeliveryOptions, isChunked: boolean): Buffer {
  const { record, cursor } = item
  const { value } = record
  const isBinary = value !== null && !isUtf8(value)
  const isDelete = value === null && options.eventFrom === 'key'
  let name = isDelete ? 'delete' : eventName(record, options.eventFrom)
  let data: Buffer
  if (isBinary && options.payload === 'drop') return EMPTY
  if (isBinary && options.payload === 'error') {
    name = 'svc-error'
    data = Buffer.from(JSON.stringify({ code: NOT_TEXT, retry_after: null }))
  } else if (options.envelope) {
    data = Buffer.from(envelope(item, options, ''))
  } else if (value === null) {
    if (!isDelete) return EMPTY
    data = EMPTY
  } else if (isBinary) {
    // Whoever reads it must see that it is not the text itself, so this name goes before all others.
    name = 'binary'
    data = Buffer.from(value.toString('base64'))
  } else {
    data = lines(value)
  }
  const head = `${cursor === null ? '' : `id: ${cursor}\n`}${name === '' ? '' : `event: ${name}\n`}data: `
  return around(head, data, '\n\n', isChunked)
}

/** The space behind the colon stays: a payload that begins with one would lose it otherwise. */
function lines(value: Buffer): Buffer {
  if (value.indexOf(10) === -1 && value.indexOf(13) === -1) return value
  // Latin-1 carries any bytes unchanged, and CR and LF are never part of a longer UTF-8 sequence.
  return Buffer.from(value.toString('latin1').replace(/\r\n|\r|\n/g, '\ndata: '), 'latin1')
}

/** '' none. Names that begin with `svc-` are the gateway's: no message can pass for one of its own events. */
function eventName(record: Arrived, from: string): string {
  let given: Buffer | string | null = null
  if (from === 'topic') given = record.topic
  else if (from === 'key') given = record.key
  else if (from.startsWith('header:')) given = headerValue(record, from.slice(7).trim().toLowerCase())
  if (given === null) return ''
  const text = typeof given === 'string' ? given : given.toString(isUtf8(given) ? 'utf8' : 'base64')
  const name = text.replace(/[\r\n\0]/g, '')
  return name.startsWith('svc-') ? '' : name
}
