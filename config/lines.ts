import { write } from 'node:fs'

/**
 * Where bytes go. Calls back once: with null when all of them are written, else with why not; `written` bytes came
 * through. Never called again before it has called back.
 */
export type Pour = (bytes: Buffer, done: (error: Error | null, written: number) => void) => void

/** Whole lines on their way out: in order, one batch at a time, never held without bound. */
export interface Lines {
  /** Takes one line, its line end included; it leaves with the next flush. */
  write(line: string): void
  flush(): void
  /** Characters that wait for a flush. */
  readonly waiting: number
  /** Resolves when what was taken up to now is written, or lost; after `ms` milliseconds in any case. */
  settled(ms?: number): Promise<void>
}

/** Lines wait at most this long in characters; beyond, they are lost and counted. */
const MOST_WAITING = 16 * 1024 * 1024
const AGAIN_MS = 10

/** `trouble` hears the first of several failures in a row, and how many lines were lost once there is none any more. */
export function linesTo(pour: Pour, trouble: (text: string) => void): Lines {
  let waiting = ''
  let count = 0
  let lost = 0
  let pouring = false
  let failing = false
  let torn = false
  let started = 0
  let ended = 0
  let waiters: { readonly batch: number; readonly resolve: () => void }[] = []

  function flush(): void {
    if (pouring || waiting === '') return
    pouring = true
    started++
    // What broke off in the middle of a line must not swallow the next one.
    const bytes = Buffer.from(torn ? `\n${waiting}` : waiting)
    const lines = count
    waiting = ''
    count = 0
    pour(bytes, (error, written) => {
      pouring = false
      ended++
      if (error !== null) {
        lost += lines
        if (written > 0) torn = bytes[written - 1] !== 0x0a
        if (!failing) trouble(error.message)
        failing = true
      } else {
        torn = false
        failing = false
        if (lost > 0) trouble(`${lost} lines were lost`)
        lost = 0
      }
      for (const { batch, resolve } of waiters) if (batch <= ended) resolve()
      waiters = waiters.filter(({ batch }) => batch > ended)
      if (waiters.length > 0) flush()
    })
  }

  return {
    write(line) {
      if (waiting.length > MOST_WAITING) {
        lost++
        return
      }
      waiting += line
      count++
    },
    flush,
    get waiting() {
      return waiting.length
    },
    settled(ms) {
      const batch = started + (waiting === '' ? 0 : 1)
      if (batch === ended) return Promise.resolve()
      return new Promise<void>(resolve => {
        const timer = ms === undefined ? undefined : setTimeout(resolve, ms)
        waiters.push({
          batch,
          resolve() {
            clearTimeout(timer)
            resolve()
          }
        })
        flush()
      })
    }
  }
}

/** Into a file or device, off the request thread; `file` is asked anew for each batch. */
export function toFile(file: () => number): Pour {
  function rest(to: number, bytes: Buffer, from: number, done: Parameters<Pour>[1]): void {
    write(to, bytes, from, bytes.length - from, null, (error, count) => {
      if (error !== null && error.code === 'EAGAIN') return void setTimeout(rest, AGAIN_MS, to, bytes, from, done)
      if (error !== null) return done(error, from)
      if (from + count < bytes.length) return rest(to, bytes, from + count, done)
      done(null, bytes.length)
    })
  }
  return (bytes, done) => rest(file(), bytes, 0, done)
}

/** Into a pipe, socket or terminal. A reader that has gone is an error like any other: nobody dies of it. */
export function toStream(stream: NodeJS.WriteStream): Pour {
  stream.on('error', () => {})
  return (bytes, done) => void stream.write(bytes, error => done(error ?? null, 0))
}
