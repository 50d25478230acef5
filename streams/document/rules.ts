import { streamMs } from '../../config/duration.ts'
import type { HttpServerInput, HttpServerOutput, KafkaInput } from '../../config/shape/stream.ts'
import type { Connector, Fault } from '../connector.ts'
import { hostedIn } from '../hosted.ts'
import { deliveryOptions, producerOptions } from '../options.ts'
import type { StreamPlan } from '../plan.ts'
import { filterFault } from '../processors/clientFilter.ts'
import { template, templateFault } from '../processors/template.ts'
import { neverGoes } from '../produce/carried.ts'
import { checkLoops } from './loops.ts'
import { placed } from './placed.ts'
import { checkPlaceholders } from './placeholders.ts'

/** What the shapes of `http_server` cannot say. */

const TOKEN = /^[!#$%&'*+.^_`|~0-9A-Za-z-]+$/
const ORIGIN = /^(?:\*|[a-z][a-z0-9+.-]*:\/\/[^/?#\s]+)$/i
const SEGMENT = /^(?:[A-Za-z0-9._~!$&'()*+,;=:@-]*|\{[A-Za-z_]\w{0,63}\})$/
const TOPIC = /^[a-zA-Z0-9._-]{1,249}$/
/** Node ends longer timers at once. */
const LONGEST_MS = 2 ** 31 - 1
const LARGEST_BODY = 100 * 1024 * 1024
/** They end an answer or begin another protocol. */
const FRAMING = ['connection', 'content-length', 'keep-alive', 'trailer', 'transfer-encoding', 'upgrade']

export function checkProducer(options: unknown, fault: Fault): void {
  const given = options as HttpServerInput
  const { path, wsPath, answerHeaders, key, maxBody, idempotencyHeader, returnsRecord, isAsync, welcome } =
    producerOptions(given)
  checkPaths({ path, ws_path: wsPath }, fault)
  checkVerbs(given.allowed_verbs, fault)
  checkOrigins(given.allowed_origins, fault)
  span(given, 'timeout', 1, fault)
  if (maxBody < 1 || maxBody > LARGEST_BODY) fault('/max_body', `must be 1 to ${LARGEST_BODY} bytes`)
  text('/key', key, fault)
  early('/ws_welcome_message', welcome, fault)
  const { status } = given.sync_response ?? {}
  if (status !== undefined && !/^2\d\d$/.test(status)) fault('/sync_response/status', 'must be 200 to 299')
  for (const [name, value] of Object.entries(answerHeaders)) {
    const place = `/sync_response/headers/${name.replaceAll('~', '~0').replaceAll('/', '~1')}`
    if (!TOKEN.test(name)) fault(place, 'is no name of a header')
    else if (FRAMING.includes(name.toLowerCase())) fault(place, 'is set by the gateway alone')
    early(place, value, fault)
  }
  if (idempotencyHeader !== '' && !TOKEN.test(idempotencyHeader)) fault('/idempotency_header', 'is no name of a header')
  for (const list of ['allow', 'deny'] as const)
    for (const [i, name] of (given.headers?.[list] ?? []).entries())
      if (!TOKEN.test(name)) fault(`/headers/${list}/${i}`, 'is no name of a header')
      else if (list === 'allow' && neverGoes(name.toLowerCase()))
        fault(`/headers/${list}/${i}`, 'never goes along: it is a credential, or of the connection alone')
  if (returnsRecord && (status === '204' || status === '205'))
    fault('/sync_response/status', 'has no body, and so no place for the record')
  if (isAsync && returnsRecord) fault('/return', 'cannot be told with `async`: the answer comes before the record')
}

export function checkDelivery(options: unknown, fault: Fault): void {
  const given = options as HttpServerOutput
  const made = deliveryOptions(given)
  checkPaths({ path: made.path, stream_path: made.streamPath, ws_path: made.wsPath }, fault)
  checkVerbs(given.allowed_verbs, fault)
  checkOrigins(given.allowed_origins, fault)
  for (const name of ['timeout', 'write_wait', 'pong_wait', 'ping_period', 'ack_timeout'] as const)
    span(given, name, 1, fault)
  for (const name of ['heartbeat', 'max_connection_age'] as const)
    if (given[name] !== undefined && streamMs(given[name]) !== 0) span(given, name, 1000, fault)
  if (made.pingPeriodMs >= made.pongWaitMs) fault('/ping_period', 'must be shorter than pong_wait')
  if (made.retryMs > LONGEST_MS) fault('/retry', `must be at most ${LONGEST_MS}`)
  if (!/^(?:none|topic|key|header:.+)$/.test(made.eventFrom) || !TOKEN.test(made.eventFrom.replace(/^header:/, '')))
    fault('/event_from', 'must be none, topic, key or header:NAME')
  if (made.filter !== null)
    for (const { pointer, message } of filterFault(made.filter)) fault(`/filter${pointer}`, message)
  if (made.queue.messages < 1) fault('/client_queue/messages', 'must be 1 or more')
  if (made.queue.bytes < 1024) fault('/client_queue/bytes', 'must be 1024 or more')
  if (given.max_clients === 0) fault('/max_clients', 'must be 1 or more')
  if (made.deadLetterTopic !== '' && !TOPIC.test(made.deadLetterTopic))
    fault('/dead_letter_topic', 'is no name of a topic')
  const isBroadcast = made.mode === 'broadcast'
  const strangers = isBroadcast
    ? {
        ack: given.ack === 'client',
        ack_timeout: true,
        max_deliveries: true,
        dead_letter_topic: true,
        start: given.start === 'committed'
      }
    : { replay_window: true, id_interval: true, allow_seek: given.allow_seek === true }
  for (const [name, counts] of Object.entries(strangers))
    if (counts && given[name as keyof HttpServerOutput] !== undefined)
      fault(`/${name}`, `has no place in mode ${made.mode}`)
  if (!made.resume)
    for (const name of ['replay_window', 'id_interval', 'allow_seek'] as const)
      if (given[name] !== undefined && given[name] !== false) fault(`/${name}`, 'says nothing with resume: false')
  if (!isBroadcast && made.ack !== 'client' && given.ack_timeout !== undefined)
    fault('/ack_timeout', 'says nothing without ack: client')
  if (!isBroadcast && made.queue.policy !== 'disconnect')
    fault('/client_queue/policy', `has no place in mode ${made.mode}: nothing is given to a client that is full`)
}

/** What connectors cannot say of each other. */
export function checkStream(plan: StreamPlan, fault: Fault): void {
  const { input, output } = plan
  const isDirect = output.kind === 'http_server' && readsKafkaAlone(input)
  for (const { place, kind, options } of placed(input, 'input')) {
    if (kind !== 'kafka') continue
    const { consumer_group = '' } = options as KafkaInput
    const group = `${place}/consumer_group`
    text(group, consumer_group, fault, ['svc_context.request_id'])
    if (!consumer_group.includes('$svc_') && !consumer_group.includes('${!')) continue
    if (consumer_group.includes('${!')) fault(group, 'comes before any message: it cannot hold expressions')
    else if (!isDirect) fault(group, 'may hold variables only where the output is an http_server')
  }
  for (const [side, connector] of [
    ['input', input],
    ['output', output]
  ] as const)
    if (hasCopiedHost(connector)) fault(`/${side}`, 'an http_server cannot have copies: its paths would collide')
  checkPlaceholders(plan, fault)
  checkLoops(plan, fault)
  if (isDirect) return
  for (const { options } of hostedIn(output))
    if (((options as HttpServerOutput).dead_letter_topic ?? '') !== '')
      fault('/output', 'dead_letter_topic needs an input that is kafka')
}

/** Messages come from Kafka and nothing else, unchanged by processors of single connectors below a broker. */
export function readsKafkaAlone({ kind, children }: Connector): boolean {
  if (kind === 'kafka') return true
  return kind === 'broker' && children.every(child => child.processors.length === 0 && readsKafkaAlone(child))
}

function hasCopiedHost({ kind, options, children }: Connector): boolean {
  if (kind !== 'broker') return false
  const { copies = 1 } = options as { copies?: number }
  return children.some(child => (copies > 1 && hostedIn(child).length > 0) || hasCopiedHost(child))
}

function checkPaths(paths: Readonly<Record<string, string>>, fault: Fault): void {
  if (Object.values(paths).every(path => path === ''))
    fault('', `serves no path: name one of ${Object.keys(paths).join(', ')}`)
  for (const [name, path] of Object.entries(paths)) {
    if (path === '') continue
    const segments = path.slice(1).split('/')
    const names = segments.filter(segment => segment.startsWith('{'))
    if (!segments.every(segment => SEGMENT.test(segment)) || segments.includes('.') || segments.includes('..'))
      fault(`/${name}`, 'must be a plain path; a whole segment may be a placeholder: /orders/{id}')
    else if (segments.slice(0, -1).includes('')) fault(`/${name}`, 'has an empty segment')
    else if (new Set(names).size < names.length) fault(`/${name}`, 'names a placeholder twice')
  }
}

function checkVerbs(verbs: readonly string[] | undefined, fault: Fault): void {
  for (const [i, verb] of (verbs ?? []).entries())
    if (['HEAD', 'OPTIONS', 'CONNECT', 'TRACE'].includes(verb))
      fault(`/allowed_verbs/${i}`, `${verb} cannot be served here`)
}

function checkOrigins(origins: readonly string[] | undefined, fault: Fault): void {
  for (const [i, origin] of (origins ?? []).entries())
    if (!ORIGIN.test(origin)) fault(`/allowed_origins/${i}`, 'must be an origin (https://example.com) or *')
}

function span<N extends string>(given: { readonly [name in N]?: string }, name: N, least: number, fault: Fault): void {
  const value = given[name]
  if (value === undefined) return
  const ms = streamMs(value)
  if (ms < least || ms > LONGEST_MS) fault(`/${name}`, `must be ${least} ms to 24 days`)
}

function text(place: string, value: string, fault: Fault, more: readonly string[] = []): boolean {
  const wrong = templateFault(value, more)
  if (wrong !== null) fault(place, wrong)
  return wrong === null
}

/** A text of the request alone. */
function early(place: string, value: string, fault: Fault): void {
  if (text(place, value, fault) && template(value).needsMessage)
    fault(place, 'cannot hold expressions: there is no one message that they could read')
}
