import { Worker } from 'node:worker_threads'
import { Refused } from './endpoint.ts'
import type { Answer, Ask } from './passwordWorker.ts'

/** Passwords as bcrypt, off the event loop: one thread for the process, started by the first password; it keeps no process alive. */

/** bcrypt looks at no more bytes of UTF-8: what is longer is refused, or two passwords would be one. */
export const LONGEST_PASSWORD = 72
/** Passwords that wait at most, some seconds of work. */
const MOST_WAITING = 128

interface Waiting {
  resolve(value: string | boolean): void
  reject(cause: Error): void
}

const waiting = new Map<number, Waiting>()
let worker: Worker | null = null
let count = 0

/** bcrypt of a password. @throws Refused 400 when it is longer than 72 bytes, 503 when too many wait */
export async function hashPassword(text: string): Promise<string> {
  if (tooLong(text)) throw new Refused(400, `A password may have at most ${LONGEST_PASSWORD} bytes`)
  return (await ask(text, null)) as string
}

/** Whether a password belongs to a bcrypt hash; '' is nobody's hash. @throws Refused 503 when too many wait */
export async function verifyPassword(text: string, hash: string): Promise<boolean> {
  if (hash === '' || tooLong(text)) return false
  return (await ask(text, hash)) as boolean
}

function tooLong(text: string): boolean {
  return Buffer.byteLength(text) > LONGEST_PASSWORD
}

function ask(text: string, hash: string | null): Promise<string | boolean> {
  if (waiting.size >= MOST_WAITING)
    throw new Refused(503, 'Service temporarily unavailable', { headers: { 'Retry-After': '1' } })
  worker ??= start()
  const thread = worker
  return new Promise((resolve, reject) => {
    const n = ++count
    waiting.set(n, { resolve, reject })
    thread.ref()
    thread.postMessage({ n, text, hash } satisfies Ask)
  })
}

function start(): Worker {
  const thread = new Worker(new URL('./passwordWorker.ts', import.meta.url), { name: 'passwords' })
  thread.on('message', ({ n, value }: Answer) => {
    const asked = waiting.get(n)!
    waiting.delete(n)
    if (waiting.size === 0) thread.unref()
    if (value === null) asked.reject(new Error('the password could not be hashed'))
    else asked.resolve(value)
  })
  const ended = (cause: Error) => {
    if (worker !== thread) return
    worker = null
    for (const { reject } of waiting.values()) reject(cause)
    waiting.clear()
  }
  thread.on('error', ended)
  thread.on('exit', () => ended(new Error('the password thread ended')))
  return thread
}
