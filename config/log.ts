import type { Lines } from './lines.ts'
import type { Clock, Fields, Log } from './world.ts'

type Level = 'debug' | 'info' | 'warn' | 'error'

/** `terminal`: short readable lines; otherwise one JSON object a line. */
export type Form = 'json' | 'terminal'

/** Each line leaves at once; debug lines go nowhere. */
export function logTo(lines: Pick<Lines, 'write' | 'flush'>, form: Form, clock: Clock): Log {
  const line = (level: Level, msg: string, fields: Fields | undefined) => {
    const time = new Date(clock.now()).toISOString()
    lines.write(
      form === 'terminal' ? readable(level, time, msg, fields) : `${JSON.stringify({ level, time, msg, ...fields })}\n`
    )
    lines.flush()
  }
  return {
    debug() {},
    info: (msg, fields) => line('info', msg, fields),
    warn: (msg, fields) => line('warn', msg, fields),
    error: (msg, fields) => line('error', msg, fields)
  }
}

function readable(level: Level, time: string, msg: string, fields: Fields = {}): string {
  const rest = Object.entries(fields)
    .filter(([, value]) => value !== undefined)
    .map(([name, value]) => ` ${name}=${typeof value === 'string' ? value : JSON.stringify(value)}`)
  // Fields may hold what a client sent: no escape sequence of theirs reaches a terminal.
  return `${`${time.slice(11, 19)} ${level === 'info' ? '' : `${level}: `}${msg}${rest.join('')}`.replace(
    /[^\x20-\x7e\xa0-\uffff]/g,
    '?'
  )}\n`
}
