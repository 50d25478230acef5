import { once } from 'node:events'
import { Worker } from 'node:worker_threads'
import { Refused } from '../endpoint.ts'
import type { Answer, Locked, Opened } from './openThread.ts'

/**
 * Opens what is locked with a password in a thread, one after another: deriving keys takes long (pkijs derives the code
 * of PKCS#12, Node's `createPrivateKey` everything, without giving way), and a thread can be ended.
 */

const LONGEST_MS = 10_000
const MOST_WAITING = 8

let thread: Worker | null = null
let last: Promise<unknown> = Promise.resolve()
let waiting = 0

/** @throws Refused 400 when the password is wrong or the way of encryption unknown; 503 when too many wait */
export async function opened(locked: Locked): Promise<Opened> {
  if (waiting >= MOST_WAITING)
    throw new Refused(503, 'Service temporarily unavailable', { headers: { 'Retry-After': '1' } })
  waiting++
  const turn = last.then(() => inThread(locked))
  last = turn.catch(() => {})
  try {
    const answer = await turn
    if ('refused' in answer) throw new Refused(400, answer.refused)
    return answer
  } finally {
    waiting--
  }
}

async function inThread(locked: Locked): Promise<Answer> {
  thread ??= start()
  const current = thread
  const signal = AbortSignal.timeout(LONGEST_MS)
  current.ref()
  try {
    const answers = once(current, 'message', { signal })
    current.postMessage(locked)
    return (await answers)[0]
  } catch (cause) {
    thread = null
    void current.terminate()
    const isTooMuch = signal.aborted || (cause as NodeJS.ErrnoException).code === 'ERR_WORKER_OUT_OF_MEMORY'
    if (isTooMuch) return { refused: 'The file asks for more work than is allowed' }
    throw cause
  } finally {
    current.unref()
  }
}

/** It keeps no process alive. */
function start(): Worker {
  const started = new Worker(new URL('./openThread.ts', import.meta.url), {
    name: 'certificates',
    resourceLimits: { maxOldGenerationSizeMb: 128 }
  })
  // Whoever waits hears it as well; without a listener an error would end the process.
  started.on('error', () => {})
  started.on('exit', () => {
    if (thread === started) thread = null
  })
  return started
}
