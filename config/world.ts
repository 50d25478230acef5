/** The outside world as small interfaces: tests move the clock by hand and collect the log. */

export interface Clock {
  /** Milliseconds since the Unix epoch. */
  now(): number
  /** Calls `run` once after `ms` milliseconds; the answer cancels it. */
  after(ms: number, run: () => void): () => void
}

export type Fields = Record<string, unknown>

export interface Log {
  debug(msg: string, fields?: Fields): void
  info(msg: string, fields?: Fields): void
  warn(msg: string, fields?: Fields): void
  error(msg: string, fields?: Fields): void
}

export interface Random {
  /** `count` bytes that nobody can guess. */
  bytes(count: number): Buffer
}

export const systemClock: Clock = {
  now: Date.now,
  after(ms, run) {
    const timer = setTimeout(run, ms)
    return () => clearTimeout(timer)
  }
}
