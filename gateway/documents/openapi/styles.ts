import type { Reading } from './texts.ts'

/** How parameters are written (OpenAPI 3.0 and 3.1, "Style Values"). Texts come decoded. */
export type Style = 'simple' | 'label' | 'form' | 'spaceDelimited' | 'pipeDelimited' | 'deepObject'

/** Where each style may be used; the first is the usual one there. */
export const stylesOf: Readonly<Record<string, readonly Style[]>> = {
  path: ['simple', 'label'],
  query: ['form', 'spaceDelimited', 'pipeDelimited', 'deepObject'],
  header: ['simple'],
  cookie: ['form']
}

/** A parameter is not written as it must be; the message ends a sentence that begins with its name. */
export class Unreadable extends Error {}

/** Members in brackets inside of each other. */
const MOST_BRACKETS = 10

const MARKS: Record<Style, string> = {
  simple: ',',
  label: '.',
  form: ',',
  spaceDelimited: ' ',
  pipeDelimited: '|',
  deepObject: ','
}

export interface Written {
  readonly name: string
  readonly style: Style
  readonly explode: boolean
}

/** The value of a parameter that stands in one text. @throws Unreadable */
export function valueIn(given: string, written: Written, reading: Reading): unknown {
  const { style, explode } = written
  if (style === 'label' && !given.startsWith('.')) throw new Unreadable('must begin with a dot')
  const text = style === 'label' ? given.slice(1) : given
  const named = explode && (style === 'simple' || style === 'label')
  return valueOfText(text, { mark: markOf(text, written), isTrimmed: style === 'simple', isNamed: named }, reading)
}

interface Parts {
  readonly mark: string
  readonly isTrimmed: boolean
  /** Members of objects are `name=value`; otherwise names and values take turns. */
  readonly isNamed: boolean
}

function valueOfText(text: string, { mark, isTrimmed, isNamed }: Parts, reading: Reading): unknown {
  const parts = () => (text === '' ? [] : text.split(mark).map(part => (isTrimmed ? part.trim() : part)))
  if (reading.types.has('array')) {
    const { items } = reading
    return parts().map(part => items.value(part))
  }
  if (!reading.types.has('object')) return reading.value(text)
  return membersOf(isNamed ? parts().flatMap(pairOf) : parts(), reading)
}

/** Labels in one piece have dots in OpenAPI 3.0 and commas in RFC 6570 §3.2.5 and OpenAPI 3.1.1. */
function markOf(text: string, { style, explode }: Written): string {
  return style === 'label' && !explode && text.includes(',') ? ',' : MARKS[style]
}

/** The value of a parameter that may stand in a query several times. @throws Unreadable */
export function valueOfAll(texts: readonly string[], written: Written, reading: Reading): unknown {
  if (reading.types.has('array') && written.explode) {
    const { items } = reading
    return texts.map(text => items.value(text))
  }
  if (texts.length > 1) throw new Unreadable('must stand there once')
  return valueIn(texts[0]!, written, reading)
}

/** An object whose members are parameters of their own; undefined when none of them is there. @throws Unreadable */
export function valueOfMembers(query: ReadonlyMap<string, readonly string[]>, reading: Reading): unknown {
  const found: [string, unknown][] = []
  for (const name of reading.names) {
    const texts = query.get(name)
    if (texts !== undefined) found.push([name, several(texts, reading.member(name), name)])
  }
  return found.length === 0 ? undefined : Object.fromEntries(found)
}

/** `name[member]=value`, and members of members; undefined when there is none. @throws Unreadable */
export function valueOfBrackets(
  query: ReadonlyMap<string, readonly string[]>,
  parameter: string,
  reading: Reading
): unknown {
  const root: Tree = new Map()
  for (const [name, texts] of query) {
    if (!name.startsWith(`${parameter}[`) || !name.endsWith(']')) continue
    const path = name.slice(parameter.length + 1, -1).split('][')
    if (path.length > MOST_BRACKETS) throw new Unreadable('has too many brackets')
    let tree = root
    for (const step of path.slice(0, -1)) {
      const next = tree.get(step) ?? new Map()
      if (!(next instanceof Map)) throw new Unreadable('has a member that is a text and an object')
      tree.set(step, next)
      tree = next
    }
    if (tree.has(path.at(-1)!)) throw new Unreadable('has a member twice')
    tree.set(path.at(-1)!, texts)
  }
  return root.size === 0 ? undefined : valueOfTree(root, reading)
}

type Tree = Map<string, Tree | readonly string[]>

function valueOfTree(tree: Tree, reading: Reading): unknown {
  return Object.fromEntries(
    [...tree].map(([name, value]) => {
      const member = reading.member(name)
      return [name, value instanceof Map ? valueOfTree(value, member) : several(value, member, name)]
    })
  )
}

function several(texts: readonly string[], reading: Reading, name: string): unknown {
  if (reading.types.has('array')) return texts.map(text => reading.items.value(text))
  if (texts.length > 1) throw new Unreadable(`has the member ${name} twice`)
  return reading.value(texts[0]!)
}

function pairOf(part: string): string[] {
  const equals = part.indexOf('=')
  if (equals < 0) throw new Unreadable('must be of the form name=value')
  return [part.slice(0, equals), part.slice(equals + 1)]
}

function membersOf(list: readonly string[], reading: Reading): unknown {
  if (list.length % 2 === 1) throw new Unreadable('must be a list of names and values')
  const members: [string, unknown][] = []
  for (let i = 0; i < list.length; i += 2) members.push([list[i]!, reading.member(list[i]!).value(list[i + 1]!)])
  return Object.fromEntries(members)
}
