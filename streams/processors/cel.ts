import { Environment } from '@marcbachmann/cel-js'
import { spend, spendMs, withEffort } from '../../config/effort.ts'
import { expressionFault, type Expression as Pattern, expression as pattern } from '../../config/expressions.ts'

/**
 * The Common Expression Language with bounds. The library bounds what is written; what a small expression can make of a
 * large value is bounded here, on the tree that it gives.
 */

/** Rounds of all comprehensions of one evaluation, and patterns that are tried. */
const MOST_STEPS = 100_000
/** `withEffort` allows 1000 ms; a message is worth a tenth. */
const MS_WEIGHT = 10
/** Characters, bytes or items of what one operation makes. */
const MOST_MADE = 8 * 1024 * 1024
const MOST_ITEMS = 1_000_000
/** Comprehensions on the result of one another or within one another. */
const MOST_LEVELS = 3
const LONGEST = 4096
/** Patterns that are remembered as they were compiled. */
const PATTERNS = 200

type Handle = (...given: readonly unknown[]) => unknown

/** What the library's tree is made of, as far as it is looked at here. */
interface Node {
  readonly op: string
  readonly args: unknown
  readonly meta: { readonly alternate?: Node; readonly macro?: object }
  /** Set by the library's check. */
  handle?: Handle
}

interface Comprehension {
  readonly iterable: Node
  readonly step: Node
  /** Asked before each round with what there is so far. */
  condition?: (made: unknown) => boolean
}

export type Types = Readonly<Record<string, string>>

/** Names and functions that expressions may use. @param functions by signature */
export function environment(variables: Types, functions: Readonly<Record<string, (...args: never[]) => unknown>>) {
  const made = new Environment({
    homogeneousAggregateLiterals: false,
    limits: { maxAstNodes: 500, maxDepth: 50, maxListElements: 200, maxMapEntries: 200, maxCallArguments: 8 }
  })
  for (const [name, type] of Object.entries(variables)) made.registerVariable(name, type)
  for (const [signature, handler] of Object.entries(functions))
    made.registerFunction(signature, handler as (...args: unknown[]) => unknown, { async: false })
  mixNumbers(made)
  lookAtOutside(made)
  return made
}

/** JSON has one kind of number, which comes as a double: `value.count + 1` shall be no fault of types. */
function mixNumbers(made: Environment): void {
  const of = { '+': plus, '-': minus, '*': times, '/': by, '%': rest }
  for (const [op, handler] of Object.entries(of))
    for (const [left, right] of [
      ['double', 'int'],
      ['int', 'double'],
      ['double', 'double']
    ] as const)
      if (left !== right || op === '%') made.registerOperator(`${left} ${op} ${right}: double`, handler)
}

const plus = (a: number, b: number) => Number(a) + Number(b)
const minus = (a: number, b: number) => Number(a) - Number(b)
const times = (a: number, b: number) => Number(a) * Number(b)
const by = (a: number, b: number) => Number(a) / Number(b)
const rest = (a: number, b: number) => Number(a) % Number(b)

/**
 * The library names the type of a value by all that it holds and keeps each name for ever: messages of ever new forms
 * would fill the memory. `list` and `map` are enough.
 */
function lookAtOutside(made: Environment): void {
  const probe = made.parse('1 + 1')
  probe.check()
  const node = probe.ast as unknown as Node
  node.handle = (_left, _right, _node, evaluator) => {
    const types = evaluator as { debugType(value: unknown): unknown; debugTypeDeep(value: unknown): unknown }
    types.debugTypeDeep = value => types.debugType(value)
    return 0n
  }
  probe({})
}

export interface Compiled {
  /** `bool`, `dyn`, … */
  readonly type: string
  /** @throws whatever the library throws, TooMuchEffort, RangeError */
  run(context: object): unknown
}

/** @throws RangeError: it cannot be used, with the reason */
export function compiled(within: Environment, text: string): Compiled {
  if (text.length > LONGEST) throw new RangeError(`is longer than ${LONGEST} characters`)
  const parsed = outcome(() => within.parse(text))
  const tree = parsed.ast as unknown as Node
  const nodes = new Set<Node>()
  if (levels(tree, nodes) > MOST_LEVELS)
    throw new RangeError(`has comprehensions on or within one another, more than ${MOST_LEVELS} levels`)
  const checked = parsed.check()
  if (!checked.valid) throw new RangeError(summary(checked.error))
  let hasRounds = false
  for (const node of nodes) {
    bind(node)
    hasRounds ||= node.op === 'comprehension'
  }
  let context: object
  const run = () => parsed(context as Record<string, unknown>)
  return {
    type: checked.type ?? 'dyn',
    run(given) {
      context = given
      if (hasRounds) began = performance.now()
      try {
        return withEffort(MOST_STEPS, run)
      } finally {
        context = NOTHING
      }
    }
  }
}

const NOTHING = {}

function outcome<T>(make: () => T): T {
  try {
    return make()
  } catch (cause) {
    throw new RangeError(summary(cause), { cause })
  }
}

/** One line about what the library threw, without its drawing of the place. */
export function summary(cause: unknown): string {
  const { summary, message } = cause as { summary?: unknown; message?: unknown }
  const text = String(typeof summary === 'string' ? summary : (message ?? cause)).split('\n')[0]!
  return text.length > 200 ? `${text.slice(0, 200)}…` : text
}

/** How deep comprehensions lie; all nodes that count are gathered, and the rounds of comprehensions are counted from now on. */
function levels(tree: unknown, nodes: Set<Node>): number {
  if (Array.isArray(tree)) return tree.reduce((most: number, each) => Math.max(most, levels(each, nodes)), 0)
  if (!isNode(tree)) return 0
  const { alternate, macro } = tree.meta
  if (alternate !== undefined) return levels(alternate, nodes)
  const isKnown = nodes.has(tree)
  nodes.add(tree)
  if (tree.op !== 'comprehension') {
    // `cel.bind` makes a name for a value, as a comprehension does.
    const within = levels(tree.args, nodes)
    return macro !== undefined && 'exp' in macro ? within + 1 : within
  }
  const args = tree.args as Comprehension
  if (!isKnown) count(args)
  return 1 + Math.max(levels(args.iterable, nodes), levels(args.step, nodes))
}

function isNode(thing: unknown): thing is Node {
  return typeof thing === 'object' && thing !== null && 'op' in thing && 'meta' in thing
}

let began = 0

function count(args: Comprehension): void {
  const { condition } = args
  args.condition = made => {
    spend(1)
    const now = performance.now()
    spendMs((now - began) * MS_WEIGHT)
    began = now
    return condition === undefined || condition(made)
  }
}

function bind(node: Node): void {
  const { op, handle } = node
  if (handle === undefined || (op !== '+' && op !== 'call' && op !== 'rcall')) return
  const name = op === 'rcall' ? (node.args as readonly unknown[])[0] : ''
  if (name === 'matches') {
    const [given] = (node.args as readonly [string, Node, readonly Node[]])[2]
    if (given?.op === 'value' && typeof given.args === 'string') {
      const fault = expressionFault(given.args)
      if (fault !== null) throw new RangeError(`pattern ${JSON.stringify(given.args.slice(0, 100))} ${fault}`)
    }
    node.handle = matches
  } else if (name === 'join') node.handle = (args, ...more) => handle(joinable(args), ...more)
  else node.handle = (...given) => bounded(handle(...given))
}

function bounded(made: unknown): unknown {
  if (typeof made === 'string' ? made.length > MOST_MADE : made instanceof Uint8Array && made.length > MOST_MADE)
    throw new RangeError(`an operation makes more than ${MOST_MADE} characters`)
  if (Array.isArray(made) && made.length > MOST_ITEMS)
    throw new RangeError(`an operation makes more than ${MOST_ITEMS} items`)
  return made
}

function joinable(args: unknown): unknown {
  const [list, between = ''] = args as readonly unknown[]
  let size = 0
  if (Array.isArray(list)) for (const each of list) size += String(between).length + String(each).length
  if (size > MOST_MADE) throw new RangeError(`an operation makes more than ${MOST_MADE} characters`)
  return args
}

const patterns = new Map<string, Pattern>()

/** In place of the library's own, whose patterns may take exponential time. */
const matches: Handle = args => {
  const [text, source] = args as readonly unknown[]
  if (typeof text !== 'string' || typeof source !== 'string') throw new RangeError('matches() takes texts')
  let known = patterns.get(source)
  if (known === undefined) {
    const fault = expressionFault(source)
    if (fault !== null) throw new RangeError(`pattern ${JSON.stringify(source.slice(0, 100))} ${fault}`)
    if (patterns.size >= PATTERNS) patterns.clear()
    known = pattern(source)
    patterns.set(source, known)
  }
  return known.test(text)
}
