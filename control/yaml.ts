import { once } from 'node:events'
import { Worker } from 'node:worker_threads'
import { parseExact } from '../config/exactJson.ts'
import { Invalid } from '../config/validate.ts'
import { type Integers, isQuickYaml, type Placed, parseLinedYaml, parseYaml, placed, toYaml } from '../config/yaml.ts'
import { Refused } from './endpoint.ts'
import { isLonger } from './size.ts'
import type { Answer, Done, Task } from './yamlThread.ts'

/**
 * YAML of any size: reading and writing 5 MB takes seconds, so what is not short goes through a thread, one after another,
 * which is ended when it takes too long or too much memory. Middle-sized texts have one of their own: they wait for no long one.
 */

/** Characters of JSON that are written as YAML at once, in some 20 ms. */
const QUICK_JSON = 50_000
/** Characters of a long text; the thread that read or wrote it is ended: it would keep hundreds of MB. */
const LONG = 500_000

/** What one text may take. */
interface Bounds {
  readonly ms: number
  readonly memoryMb: number
  /** Texts that wait or are under way at most. */
  readonly most: number
}

export interface YamlThread {
  /** @throws Invalid; Refused 413 when it takes too much, 503 when too many wait */
  do<T extends Task>(given: T): Promise<Done[T['task']]>
}

const refusals = {
  read: new Refused(413, 'Reading the body as YAML takes too much time or memory: send it as JSON'),
  write: new Refused(413, 'Writing the answer as YAML takes too much time or memory: ask for JSON')
}

const middle = yamlThread({ ms: 10_000, memoryMb: 512, most: 32 })
// 10 MB of paths and operations take 8 s and 1 GB.
const long = yamlThread({ ms: 20_000, memoryMb: 1024, most: 8 })
const threadOf = (text: string) => (text.length > LONG ? long : middle)

/** As `parseYaml`. @throws as `YamlThread.do` */
export async function readYaml(text: string, integers: Integers): Promise<unknown> {
  if (isQuickYaml(text)) return parseYaml(text, integers)
  return parseExact(await threadOf(text).do({ task: 'read', text, integers }))
}

/** The same, integers exact, with the places of values. */
export async function readPlacedYaml(text: string): Promise<Placed> {
  return placed(isQuickYaml(text) ? parseLinedYaml(text) : await threadOf(text).do({ task: 'place', text }))
}

/** As `toYaml`. @throws as `YamlThread.do` */
export async function writeYaml(value: unknown): Promise<string> {
  if (!isLonger(value, QUICK_JSON)) return toYaml(value)
  const text = JSON.stringify(value)
  return threadOf(text).do({ task: 'write', text })
}

export function yamlThread({ ms, memoryMb, most }: Bounds): YamlThread {
  let thread: Worker | null = null
  let last: Promise<unknown> = Promise.resolve()
  let waiting = 0

  async function answered<T extends Task>(given: T): Promise<Answer<T['task']>> {
    thread ??= start()
    const current = thread
    const signal = AbortSignal.timeout(ms)
    current.ref()
    let isLast = given.text.length > LONG
    try {
      const answers = once(current, 'message', { signal })
      current.postMessage(given)
      return (await answers)[0]
    } catch (cause) {
      isLast = true
      const isTooMuch = signal.aborted || (cause as NodeJS.ErrnoException).code === 'ERR_WORKER_OUT_OF_MEMORY'
      throw isTooMuch ? refusals[given.task === 'write' ? 'write' : 'read'] : cause
    } finally {
      current.unref()
      if (isLast) {
        thread = null
        void current.terminate()
      }
    }
  }

  /** It keeps no process alive. */
  function start(): Worker {
    const started = new Worker(new URL('./yamlThread.ts', import.meta.url), {
      name: 'yaml',
      resourceLimits: { maxOldGenerationSizeMb: memoryMb }
    })
    // Whoever waits hears it as well; without a listener an error would end the process.
    started.on('error', () => {})
    started.on('exit', () => {
      if (thread === started) thread = null
    })
    return started
  }

  return {
    async do(given) {
      if (waiting >= most)
        throw new Refused(503, 'Service temporarily unavailable', { headers: { 'Retry-After': '1' } })
      waiting++
      const turn = last.then(() => answered(given))
      last = turn.catch(() => {})
      try {
        const answer = await turn
        if ('faults' in answer) throw new Invalid(answer.faults)
        return answer.value
      } finally {
        waiting--
      }
    }
  }
}
