import { isUtf8 } from 'node:buffer'
import type { Item } from '../hub/hub.ts'
import type { DeliveryOptions } from '../options.ts'
import { envelope, notText } from './envelope.ts'

/** Frames of a server (RFC 6455 §5.2): whole, not masked, not compressed; so one buffer serves all clients. */

const TEXT = 0x81
const BINARY = 0x82
const EMPTY = Buffer.alloc(0)

export const PING = Buffer.from([0x89, 0])

function frame(first: number, payload: Buffer): Buffer {
  const { length } = payload
  const head = length < 126 ? 2 : length < 65_536 ? 4 : 10
  const bytes = Buffer.allocUnsafe(head + length)
  bytes[0] = first
  if (head === 2) bytes[1] = length
  else if (head === 4) {
    bytes[1] = 126
    bytes.writeUInt16BE(length, 2)
  } else {
    bytes[1] = 127
    bytes.writeUInt32BE(Math.floor(length / 2 ** 32), 2)
    bytes.writeUInt32BE(length >>> 0, 6)
  }
  payload.copy(bytes, head)
  return bytes
}

export function textFrame(text: string): Buffer {
  return frame(TEXT, Buffer.from(text))
}

/** The value alone is a frame; empty: it has none. */
export function rawFrame({ record: { value }, cursor }: Item, options: DeliveryOptions): Buffer {
  if (value === null) return EMPTY
  if (options.wsMessageType === 'binary') return frame(BINARY, value)
  if (isUtf8(value)) return frame(TEXT, value)
  if (options.wsMessageType === null) return frame(BINARY, value)
  if (options.payload === 'drop') return EMPTY
  return textFrame(options.payload === 'error' ? notText(cursor) : value.toString('base64'))
}

/** @param type as `envelope` takes it */
export function envelopeFrame(item: Item, options: DeliveryOptions, type: '' | 'msg'): Buffer {
  const text = envelopeText(item, options, type)
  return text === '' ? EMPTY : textFrame(text)
}

/** '' the message has none. */
export function envelopeText(item: Item, options: DeliveryOptions, type: '' | 'msg'): string {
  const { value } = item.record
  if (options.payload !== 'base64' && value !== null && !isUtf8(value))
    return options.payload === 'drop' ? '' : notText(item.cursor)
  return envelope(item, options, type)
}
