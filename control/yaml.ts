import { once } from 'node:events'
import { Worker } from 'node:worker_threads'
import { parseExact } from '../config/exactJson.ts'
import { Invalid } from '../config/validate.ts'
import { type Integers, isQuickYaml, type Placed, parseLinedYaml, parseYaml, placed, toYaml } from '../config/yaml.ts'
import { Refused } from './endpoint.ts'
import { isLonger } from './size.ts'
import type { Answer, Done, Task } from './yamlThread.ts'

/**
 * YAML of any size: reading and writing 5 MB takes seconds, so what is large goes through a thread, one after another,
 * which is ended when it takes too long or too much memory.
 */

const LONGEST_MS = 20_000
const MOST_WAITING = 8
/** Some 100 times what a text takes that is as long as a body may be. */
const MOST_MEMORY_MB = 1024
/** Characters of JSON that are written as YAML at once, in some 30 ms. */
const QUICK_JSON = 100_000

const unread = new Refused(413, 'Reading the body as YAML takes too long: send it as JSON')
const unwritten = new Refused(413, 'Writing the answer as YAML takes too long: ask for JSON')

let thread: Worker | null = null
let last: Promise<unknown> = Promise.resolve()
let waiting = 0

/** As `parseYaml`. @throws Invalid; Refused 413 when it takes too long, 503 when too many wait */
export async function readYaml(text: string, integers: Integers): Promise<unknown> {
  if (isQuickYaml(text)) return parseYaml(text, integers)
  return parseExact(await inThread({ task: 'read', text, integers }, unread))
}

/** The same, integers exact, with the places of values. */
export async function readPlacedYaml(text: string): Promise<Placed> {
  return placed(isQuickYaml(text) ? parseLinedYaml(text) : await inThread({ task: 'place', text }, unread))
}

/** As `toYaml`. @throws Refused 413 when it takes too long, 503 when too many wait */
export async function writeYaml(value: unknown): Promise<string> {
  if (!isLonger(value, QUICK_JSON)) return toYaml(value)
  return inThread({ task: 'write', text: JSON.stringify(value) }, unwritten)
}

async function inThread<T extends Task>(given: T, tooLong: Refused): Promise<Done[T['task']]> {
  if (waiting >= MOST_WAITING)
    throw new Refused(503, 'Service temporarily unavailable', { headers: { 'Retry-After': '1' } })
  waiting++
  const turn = last.then(() => answered(given, tooLong))
  last = turn.catch(() => {})
  try {
    const answer = await turn
    if ('faults' in answer) throw new Invalid(answer.faults)
    return answer.value
  } finally {
    waiting--
  }
}

async function answered<T extends Task>(given: T, tooLong: Refused): Promise<Answer<T['task']>> {
  thread ??= start()
  const current = thread
  const signal = AbortSignal.timeout(LONGEST_MS)
  current.ref()
  try {
    const answers = once(current, 'message', { signal })
    current.postMessage(given)
    return (await answers)[0]
  } catch (cause) {
    thread = null
    void current.terminate()
    throw signal.aborted || (cause as NodeJS.ErrnoException).code === 'ERR_WORKER_OUT_OF_MEMORY' ? tooLong : cause
  } finally {
    current.unref()
  }
}

/** It keeps no process alive. */
function start(): Worker {
  const started = new Worker(new URL('./yamlThread.ts', import.meta.url), {
    name: 'yaml',
    resourceLimits: { maxOldGenerationSizeMb: MOST_MEMORY_MB }
  })
  // Whoever waits hears it as well; without a listener an error would end the process.
  started.on('error', () => {})
  started.on('exit', () => {
    if (thread === started) thread = null
  })
  return started
}
