import { pointer } from '../../config/validate.ts'
import type { Call } from '../call.ts'
import type { Arrived, Message } from '../message.ts'
import type { DeliveryOptions } from '../options.ts'
import { Undelivered } from '../undelivered.ts'
import { compileForClients } from './expression.ts'
import { conditionFault } from './filter.ts'
import { isKnown, template, templateFault } from './template.ts'

type Filter = NonNullable<DeliveryOptions['filter']>
type Condition = (message: Message & Partial<Arrived>, call: Call) => boolean

/** One filter's texts, read once for all of its clients. */
interface Read {
  readonly key: ReturnType<typeof template> | null
  readonly headers: readonly (readonly [name: string, value: ReturnType<typeof template>])[]
  readonly condition: Condition | null
}

/** What a condition asks of its client, where it stands there plainly. */
const ASKED = /\bcaller\(\s*["']([\w.-]*)["']\s*\)/g

const read = new WeakMap<Filter, Read>()

/**
 * Which messages one client gets; null: all. `key` and `headers` have to be equal, byte by byte, to what their variables
 * give for this client, now and for as long as it stays; in `check` what is known of it is `caller("svc_meta.NAME")`, and
 * a message for which it cannot be worked out is not for this client.
 */
export function clientFilter(filter: DeliveryOptions['filter'], call: Call): ((record: Arrived) => boolean) | null {
  if (filter === null) return null
  let known = read.get(filter)
  if (known === undefined) {
    known = readOf(filter)
    read.set(filter, known)
  }
  const { condition } = known
  const key = known.key === null ? null : Buffer.from(known.key(null, call))
  const headers = known.headers.map(([name, value]) => ({ name, value: Buffer.from(value(null, call)) }))
  if (key === null && headers.length === 0 && condition === null) return null
  return record => {
    if (key !== null && (record.key === null || !record.key.equals(key))) return false
    for (const { name, value } of headers) if (!has(record, name, value)) return false
    return condition === null || condition(record, call)
  }
}

/** What is wrong with a filter, for saving; pointers are below it. */
export function filterFault(filter: Filter): { readonly pointer: string; readonly message: string }[] {
  const faults: { pointer: string; message: string }[] = []
  const tell = (place: string) => (message: string) => void faults.push({ pointer: place, message })
  const text = (place: string, given: string) => {
    const wrong = templateFault(given)
    if (wrong !== null) tell(place)(wrong)
    else if (template(given).needsMessage) tell(place)('is compared with each message: it cannot hold expressions')
  }
  if (filter.key === '' && filter.check === '' && Object.keys(filter.headers).length === 0)
    tell('')('says nothing: name key, headers or check')
  text('/key', filter.key)
  for (const [name, value] of Object.entries(filter.headers)) text(`/headers/${pointer(name)}`, value)
  if (filter.check !== '') conditionFault(filter.check, tell('/check'), compileForClients)
  for (const [, name] of filter.check.matchAll(ASKED))
    if (!isKnown(name!)) tell('/check')(`asks for ${name}, which does not exist`)
  return faults
}

function readOf({ key, headers, check }: Filter): Read {
  return {
    key: key === '' ? null : template(key),
    headers: Object.entries(headers).map(([name, value]) => [name.toLowerCase(), template(value)]),
    condition: check === '' ? null : conditionOf(check)
  }
}

function conditionOf(check: string): Condition {
  const { run } = compileForClients(check)
  return (message, call) => {
    try {
      return run(message, call) === true
    } catch (cause) {
      if (!(cause instanceof Undelivered)) throw cause
      return false
    }
  }
}

/** Of several headers of one name the last counts. */
function has({ headers }: Message, name: string, value: Buffer): boolean {
  for (let i = headers.length - 1; i >= 0; i--)
    if (headers[i]![0].toLowerCase() === name) return headers[i]![1].equals(value)
  return false
}
