import type { Api, HeaderEdits } from '../api.ts'
import type { Exchange } from '../exchange.ts'
import { type Text, text } from '../variables.ts'
import type { Step } from './step.ts'

interface Edits {
  readonly remove: ReadonlySet<string>
  readonly add: readonly { readonly name: string; readonly lower: string; readonly value: Text }[]
}

/** `transformResponseHeaders` of the API, then of the operation; on answers of the upstream, not on refusals. */
export const transformResponseHeaders: Step = {
  name: 'transformResponseHeaders',
  make(api) {
    const edit = editor(api, 'responseHeaders')
    if (edit === null) return null
    return {
      head(x, _status, pairs) {
        if (x.refusal === null && x.upstreamMs >= 0) edit(x, pairs)
      }
    }
  }
}

/** `transformRequestHeaders` of the API, then of the operation; null where the document has none. */
export function requestEdits(api: Api): ((x: Exchange, pairs: string[]) => void) | null {
  return editor(api, 'requestHeaders')
}

// Global remove, global add, endpoint remove, endpoint add (semantics §3.7).
function editor(
  api: Api,
  which: 'requestHeaders' | 'responseHeaders'
): ((x: Exchange, pairs: string[]) => void) | null {
  const ofApi = compiled(api[which])
  const ofOperations = new Map(
    api.operations.filter(each => each[which] !== null).map(each => [each, compiled(each[which])!])
  )
  if (ofApi === null && ofOperations.size === 0) return null
  return (x, pairs) => {
    if (ofApi !== null) apply(x, pairs, ofApi)
    const own = x.operation === null ? undefined : ofOperations.get(x.operation)
    if (own !== undefined) apply(x, pairs, own)
  }
}

function compiled(edits: HeaderEdits | null): Edits | null {
  if (edits === null) return null
  return {
    remove: new Set(edits.remove),
    add: edits.add.map(({ name, value }) => ({ name, lower: name.toLowerCase(), value: text(value) }))
  }
}

function apply(x: Exchange, pairs: string[], { remove, add }: Edits): void {
  for (let i = pairs.length - 2; i >= 0; i -= 2) if (remove.has(pairs[i]!.toLowerCase())) pairs.splice(i, 2)
  for (const { name, lower, value } of add) {
    let at = -1
    for (let i = pairs.length - 2; i >= 0; i -= 2) {
      if (pairs[i]!.toLowerCase() !== lower) continue
      if (at >= 0) pairs.splice(at, 2)
      at = i
    }
    if (at >= 0) pairs[at + 1] = value(x)
    else pairs.push(name, value(x))
  }
}
