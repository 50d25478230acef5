import { at, isObject, type Report } from '../../config/report.ts'
import { connectorKinds, processorKinds, Streaming, unsafeKinds } from '../../config/shape/stream.ts'
import { compile, Invalid, pointer } from '../../config/validate.ts'

export const STREAMING = 'x-svc-streaming'

type Side = 'input' | 'output'
type Check = (input: unknown) => unknown

const root = compile(Streaming)
const checks: Record<Side, Map<string, Check>> = { input: checksOf('input'), output: checksOf('output') }
/** Members that stand beside a connector or processor. */
const BESIDE = ['label', 'processors']
/** Brokers within brokers. */
const DEEPEST = 10
const MOST_FAULTS = 1000

/** Checks `x-svc-streaming` wholly (semantics §8.8); pointers are told from the extension on. */
export function readStreaming(given: unknown, fault: Report): void {
  let told = 0
  const bounded: Report = (path, message) => {
    if (told++ < MOST_FAULTS) fault(path, message)
  }
  if (!tell(root, given, bounded)) return
  for (const [name, stream] of Object.entries((given as Streaming).streams)) {
    const report = at(`/streams/${pointer(name)}`, bounded)
    connector('input', stream.input, 0, at('/input', report))
    connector('output', stream.output, 0, at('/output', report))
    if (stream.pipeline !== undefined) processors(stream.pipeline.processors, 0, at('/pipeline/processors', report))
  }
}

function connector(side: Side, given: unknown, depth: number, fault: Report): void {
  if (!isObject(given)) return fault('', 'must be an object')
  const kind = kindOf(given, name => checks[side].has(name), side, fault)
  beside(given, depth, fault)
  if (kind === null || !tell(checks[side].get(kind)!, given[kind], at(`/${kind}`, fault))) return
  const options = given[kind] as Record<string, unknown>
  if (isObject(options.batching))
    processors(options.batching.processors, depth, at(`/${kind}/batching/processors`, fault))
  if (kind !== 'broker') return
  if (depth === DEEPEST) return fault(`/${kind}`, `holds brokers deeper than ${DEEPEST} levels`)
  for (const [i, inner] of (options[`${side}s`] as unknown[]).entries())
    connector(side, inner, depth + 1, at(`/${kind}/${side}s/${i}`, fault))
}

function beside(given: Record<string, unknown>, depth: number, fault: Report): void {
  if (given.label !== undefined && typeof given.label !== 'string') fault('/label', 'must be a text')
  processors(given.processors, depth, at('/processors', fault))
}

function processors(given: unknown, depth: number, fault: Report): void {
  if (given === undefined) return
  if (!Array.isArray(given)) return fault('', 'must be a list')
  for (const [i, processor] of given.entries()) {
    const report = at(`/${i}`, fault)
    if (!isObject(processor)) report('', 'must be an object')
    else {
      const kind = kindOf(processor, name => processorKinds.includes(name), 'processor', report)
      if (processor.processors !== undefined) report('/processors', 'is not known here')
      if (kind !== null) within(processor[kind], depth + 1, at(`/${kind}`, report))
    }
  }
}

/** Processors may hold lists of processors anywhere. */
function within(given: unknown, depth: number, fault: Report): void {
  if (typeof given !== 'object' || given === null) return
  for (const [name, inner] of Object.entries(given)) {
    const report = at(`/${pointer(name)}`, fault)
    if (name === 'processors') processors(inner, depth + 1, report)
    else within(inner, depth + 1, report)
  }
}

/** The one member that names a kind; null, and the faults are told. */
function kindOf(
  given: Record<string, unknown>,
  known: (name: string) => boolean,
  what: Side | 'processor',
  fault: Report
): string | null {
  const names = Object.keys(given).filter(name => !BESIDE.includes(name))
  const wrong = names.filter(name => !known(name))
  for (const name of wrong)
    fault(
      `/${pointer(name)}`,
      unsafeKinds.includes(name)
        ? 'is unsafe and cannot be used: it reaches files, processes or sockets of the machine'
        : `is no known ${what}`
    )
  if (names.length === 0) fault('', `must name one ${what}`)
  else if (names.length > 1) fault('', `must name one ${what}, not ${names.length}`)
  return names.length === 1 && wrong.length === 0 ? names[0]! : null
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

function checksOf(side: Side): Map<string, Check> {
  return new Map(Object.entries(connectorKinds[side]).map(([kind, shape]) => [kind, compile(shape)]))
}
