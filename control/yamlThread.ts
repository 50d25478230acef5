import { parentPort } from 'node:worker_threads'
import { parseExact } from '../config/exactJson.ts'
import { type Fault, Invalid } from '../config/validate.ts'
import { type Integers, type Lined, parseLinedYaml, parseYaml, toYaml } from '../config/yaml.ts'

/** `write`: JSON to YAML; `read` the other way round; `place`: with the lines of values, integers exact. */
export type Task =
  | { readonly task: 'read'; readonly text: string; readonly integers: Integers }
  | { readonly task: 'place'; readonly text: string }
  | { readonly task: 'write'; readonly text: string }

/** What becomes of each. */
export interface Done {
  readonly read: string
  readonly place: Lined
  readonly write: string
}

export type Answer<T extends Task['task'] = Task['task']> =
  | { readonly value: Done[T] }
  | { readonly faults: readonly Fault[] }

function done(given: Task): Done[Task['task']] {
  if (given.task === 'write') return toYaml(parseExact(given.text))
  if (given.task === 'place') return parseLinedYaml(given.text)
  return JSON.stringify(parseYaml(given.text, given.integers))
}

parentPort!.on('message', (given: Task) => {
  let answer: Answer
  try {
    answer = { value: done(given) }
  } catch (cause) {
    if (!(cause instanceof Invalid)) throw cause
    answer = { faults: cause.faults }
  }
  parentPort!.postMessage(answer)
})
