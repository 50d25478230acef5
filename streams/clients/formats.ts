import type { Format, Item } from '../hub/hub.ts'
import type { DeliveryOptions } from '../options.ts'
import { around, eventFrame } from './eventFrames.ts'
import { envelopeFrame, envelopeText, rawFrame } from './webSocketFrames.ts'

/** Every kind of client of one stream. An empty buffer: clients of this kind do not get the message. */
export interface Formats {
  /** Server-sent events: as chunks, and bare for HTTP/1.0. */
  readonly events: Format
  readonly eventsBare: Format
  /** Values, each with a line feed behind it. */
  readonly lines: Format
  readonly linesBare: Format
  /** WebSocket: values; envelopes; messages of `svc.stream.v1`. */
  readonly values: Format
  readonly envelopes: Format
  readonly messages: Format
  /** Envelopes as JSON, for polls. */
  readonly members: Format
}

const made = new WeakMap<DeliveryOptions, Formats>()

/** The same for the same options, so that bytes are made once a message. */
export function formatsOf(options: DeliveryOptions): Formats {
  const before = made.get(options)
  if (before !== undefined) return before
  const formats: Formats = {
    events: { encode: item => eventFrame(item, options, true) },
    eventsBare: { encode: item => eventFrame(item, options, false) },
    lines: { encode: item => line(item, options, true) },
    linesBare: { encode: item => line(item, options, false) },
    values: { encode: item => rawFrame(item, options) },
    envelopes: { encode: item => envelopeFrame(item, options, '') },
    messages: { encode: item => envelopeFrame(item, options, 'msg') },
    members: { encode: item => Buffer.from(envelopeText(item, options, '')) }
  }
  made.set(options, formats)
  return formats
}

const EMPTY = Buffer.alloc(0)

function line(item: Item, options: DeliveryOptions, isChunked: boolean): Buffer {
  if (options.envelope) {
    const text = envelopeText(item, options, '')
    return text === '' ? EMPTY : around(text, EMPTY, '\n', isChunked)
  }
  const { value } = item.record
  return value === null ? EMPTY : around('', value, '\n', isChunked)
}
