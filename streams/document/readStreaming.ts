import { createHash } from 'node:crypto'
import { at, isObject, type Report } from '../../config/report.ts'
import { HttpServerInput, HttpServerOutput, Streaming, unsafeKinds } from '../../config/shape/stream.ts'
import { compile, Invalid, pointer } from '../../config/validate.ts'
import { inputs, outputs, processors } from '../catalogue.ts'
import type { Connector, InputKind, OutputKind, Step } from '../connector.ts'
import type { StreamPlan } from '../plan.ts'
import { collisions } from './collisions.ts'
import { checkDelivery, checkProducer, checkStream } from './rules.ts'

export const STREAMING = 'x-svc-streaming'

type Side = 'input' | 'output'
type Check = (input: unknown) => unknown
/** What the reading needs of a kind of connector. */
type Kind = Pick<InputKind | OutputKind, 'name' | 'check'> & { readonly read: Check }

/** `http_server` is opened by nobody: the router serves it. */
const hosted: Readonly<Record<Side, Kind>> = {
  input: { name: 'http_server', read: compile(HttpServerInput), check: checkProducer },
  output: { name: 'http_server', read: compile(HttpServerOutput), check: checkDelivery }
}
const root = compile(Streaming)
const kinds: Readonly<Record<Side, ReadonlyMap<string, Kind>>> = {
  input: kindsOf(inputs, hosted.input),
  output: kindsOf(outputs, hosted.output)
}
const processorKinds = new Map(processors.map(kind => [kind.name, kind]))
/** Members that stand beside a connector. */
const BESIDE = ['label', 'processors']
/** Brokers within brokers. */
const DEEPEST = 10
/** Connectors of one stream, copies counted: one document cannot open thousands of connections. */
const MOST_CONNECTORS = 100
const MOST_FAULTS = 1000
const LONGEST_NAME = 256
const TOO_LONG = `must be at most ${LONGEST_NAME} characters`

/**
 * Reads `x-svc-streaming` wholly (semantics §8.8): nothing is stripped, what is unknown or unsafe is a fault. Pointers are
 * told from the extension on. The plans count only when no fault was told.
 */
export function readStreaming(given: unknown, fault: Report): readonly StreamPlan[] {
  let told = 0
  const bounded: Report = (path, message) => {
    if (told++ < MOST_FAULTS) fault(path, message)
  }
  if (!checkNames(given, bounded) || !tell(root, given, bounded)) return []
  const plans = Object.entries((given as Streaming).streams).map(([name, stream]) => {
    const report = at(`/streams/${pointer(name)}`, bounded)
    const input = connector('input', stream.input, 0, at('/input', report))
    const output = connector('output', stream.output, 0, at('/output', report))
    const processors = steps(stream.pipeline?.processors, at('/pipeline/processors', report))
    const hash = createHash('sha256').update(JSON.stringify(stream)).digest('hex')
    const plan: StreamPlan = { name, hash, input, processors, output }
    const inside = count(input) + count(output)
    if (inside > MOST_CONNECTORS) report('', `has ${inside} connectors; at most ${MOST_CONNECTORS}`)
    else if (told === 0) checkStream(plan, report)
    return plan
  })
  if (told === 0) collisions(plans, bounded)
  return plans
}

/** Whether the streams have names; what else is wrong is left to the shape. */
function checkNames(given: unknown, fault: Report): boolean {
  if (!isObject(given) || !isObject(given.streams)) return true
  let isGood = true
  for (const name of Object.keys(given.streams)) {
    const wrong = name.trim() === '' ? 'must not be blank' : name.length > LONGEST_NAME ? TOO_LONG : null
    if (wrong === null) continue
    isGood = false
    fault(`/streams/${pointer(name)}`, wrong)
  }
  return isGood
}

const NONE: Connector = { kind: '', label: '', options: {}, processors: [], children: [] }

function connector(side: Side, given: unknown, depth: number, fault: Report): Connector {
  if (!isObject(given)) {
    fault('', 'must be an object')
    return NONE
  }
  const kind = kindOf(given, kinds[side], side, BESIDE, fault)
  const { label = '' } = given
  if (typeof label !== 'string' || label.length > 256) fault('/label', 'must be a text of at most 256 characters')
  const processors = steps(given.processors, at('/processors', fault))
  if (kind === null) return NONE
  const below = at(`/${kind.name}`, fault)
  const options = given[kind.name]
  if (!tell(kind.read, options, below)) return NONE
  kind.check?.(options, below)
  const made = { kind: kind.name, label: String(label), options, processors }
  if (kind.name !== 'broker') return { ...made, children: [] }
  if (depth === DEEPEST) {
    below('', `holds brokers deeper than ${DEEPEST} levels`)
    return NONE
  }
  const children = (options as Record<string, unknown[]>)[`${side}s`]!.map((inner, i) =>
    connector(side, inner, depth + 1, at(`/${side}s/${i}`, below))
  )
  return { ...made, children }
}

function steps(given: unknown, fault: Report): Step[] {
  if (given === undefined) return []
  if (!Array.isArray(given) || given.length > 100) {
    fault('', 'must be a list of at most 100 processors')
    return []
  }
  return given.flatMap((processor, i) => {
    const report = at(`/${i}`, fault)
    if (!isObject(processor)) {
      report('', 'must be an object')
      return []
    }
    const kind = kindOf(processor, processorKinds, 'processor', ['label'], report)
    if (kind === null) return []
    const options = processor[kind.name]
    kind.check(options, at(`/${kind.name}`, report))
    return [{ kind: kind.name, options }]
  })
}

/** The one member that names a kind; null, and the faults are told. */
function kindOf<K>(
  given: Record<string, unknown>,
  known: ReadonlyMap<string, K>,
  what: Side | 'processor',
  beside: readonly string[],
  fault: Report
): K | null {
  const names = Object.keys(given).filter(name => !beside.includes(name))
  const wrong = names.filter(name => !known.has(name))
  for (const name of wrong)
    fault(
      `/${pointer(name)}`,
      unsafeKinds.includes(name)
        ? 'is unsafe and cannot be used: it reaches files, processes or sockets of the machine'
        : `is no known ${what}; there are ${[...known.keys()].join(', ')}`
    )
  if (names.length === 0) fault('', `must name one ${what}`)
  else if (names.length > 1) fault('', `must name one ${what}, not ${names.length}`)
  return names.length === 1 && wrong.length === 0 ? known.get(names[0]!)! : null
}

function count({ options, children }: Connector): number {
  const { copies = 1 } = options as { copies?: number }
  return children.length === 0 ? 1 : copies * children.reduce((sum, child) => sum + count(child), 0)
}

/** Whether it fits; faults are told. */
function tell(check: Check, given: unknown, fault: Report): boolean {
  try {
    check(given)
    return true
  } catch (cause) {
    if (!(cause instanceof Invalid)) throw cause
    for (const { path, message } of cause.faults) fault(path, message)
    return false
  }
}

function kindsOf(list: readonly (InputKind | OutputKind)[], own: Kind): ReadonlyMap<string, Kind> {
  const all = list.map(({ name, shape, check }): Kind => ({ name, read: compile(shape), ...(check && { check }) }))
  return new Map([own, ...all].map(kind => [kind.name, kind]))
}
