import { streamMs } from '../../config/duration.ts'
import type { KafkaInput } from '../../config/shape/stream.ts'
import type { Joining } from '../broker.ts'
import { addressFault } from '../brokers/addresses.ts'
import type { Fault } from '../connector.ts'
import { template, templateFault } from '../processors/template.ts'
import { checkSasl, checkTls, type Sasl, type Tls, unfilled } from './credentials.ts'

/** What both kinds of `kafka` say alike, with defaults and what their shapes cannot say. */

/** Node ends longer timers at once. */
const LONGEST_MS = 2 ** 31 - 1
const BUFFER_BYTES = 4 * 1024 * 1024

/** The longest of Kafka's rule; `.` and `..` are none. */
export function isTopic(name: string): boolean {
  return /^[a-zA-Z0-9._-]{1,249}$/.test(name) && name !== '.' && name !== '..'
}

/** Items of a list whose items may hold several with commas. */
function listed(items: readonly string[]): readonly string[] {
  return [...new Set(items.flatMap(item => item.split(',')).map(item => item.trim()))]
}

/** How an input reads. @param fallbackGroup of one that names no group */
export function joiningOf(options: KafkaInput, fallbackGroup: string): Joining {
  const { consumer_group = '', group = {} } = options
  return {
    topics: listed(options.topics),
    group: consumer_group === '' ? fallbackGroup : consumer_group,
    start: (options.start_from_oldest ?? true) ? 'earliest' : 'latest',
    isolation: options.transaction_isolation_level ?? 'read_uncommitted',
    sessionMs: streamMs(group.session_timeout ?? '10s'),
    heartbeatMs: streamMs(group.heartbeat_interval ?? '3s'),
    rebalanceMs: streamMs(group.rebalance_timeout ?? '60s'),
    rackId: options.rack_id ?? ''
  }
}

export interface Buffering {
  /** Commits are at least so far apart. */
  readonly commitMs: number
  /** Of one partition; above it the broker pauses, at half of it it goes on. */
  readonly bufferMessages: number
  readonly bufferBytes: number
  /** Messages of one partition that are under way at once. */
  readonly checkpointLimit: number
}

export function bufferOf(options: KafkaInput): Buffering {
  return {
    commitMs: streamMs(options.commit_period ?? '1s'),
    bufferMessages: options.fetch_buffer_cap ?? 5000,
    bufferBytes: BUFFER_BYTES,
    checkpointLimit: options.checkpoint_limit ?? 1024
  }
}

export function checkInput(options: unknown, fault: Fault): void {
  const given = options as KafkaInput
  checkServers(given, fault)
  unfilled('/rack_id', given.rack_id, fault)
  for (const [i, item] of given.topics.entries())
    for (const name of item.split(',').map(each => each.trim()))
      if (/^[^:]*:[\d\s-]+$/.test(name))
        fault(`/topics/${i}`, `${name} names partitions, which cannot be chosen: a group parts them among its members`)
      else if (!isTopic(name)) fault(`/topics/${i}`, `${JSON.stringify(name)} is no name of a topic`)
  checkSpan('/commit_period', given.commit_period, fault)
  for (const name of ['session_timeout', 'heartbeat_interval', 'rebalance_timeout'] as const)
    checkSpan(`/group/${name}`, given.group?.[name], fault)
  const { sessionMs, heartbeatMs } = joiningOf(given, '')
  if (heartbeatMs >= sessionMs) fault('/group/heartbeat_interval', 'must be shorter than session_timeout')
}

interface Servers {
  readonly addresses: readonly string[]
  readonly client_id?: string
  readonly tls?: Tls
  readonly sasl?: Sasl
}

/** Where the broker is, and how the client names itself there. Embedded brokers ask for neither name nor TLS. */
export function checkServers({ addresses, client_id, tls, sasl }: Servers, fault: Fault): void {
  const wrong = addressFault(addresses)
  if (wrong !== null) fault('/addresses', wrong)
  unfilled('/client_id', client_id, fault)
  checkTls(tls, fault)
  checkSasl(sasl, fault)
}

/** A duration that, where it is given, is above 0 and fits a timer. */
export function checkSpan(place: string, given: string | undefined, fault: Fault): void {
  if (given === undefined) return
  const ms = streamMs(given)
  if (ms < 1 || ms > LONGEST_MS) fault(place, 'must be 1 ms to 24 days')
}

/** Tells what is wrong with a text that may hold variables and expressions. */
export function checkTemplate(place: string, text: string, fault: Fault): ReturnType<typeof template> | null {
  const wrong = templateFault(text)
  if (wrong === null) return template(text)
  fault(place, wrong)
  return null
}
