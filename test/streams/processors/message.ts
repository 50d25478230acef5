import type { Call } from '../../../streams/call.ts'
import type { Message } from '../../../streams/message.ts'
import { Undelivered } from '../../../streams/undelivered.ts'

/** A message with two headers; objects become JSON. */
export function message(value: unknown, key: string | null = 'k'): Message {
  const bytes = typeof value === 'string' || Buffer.isBuffer(value) ? value : JSON.stringify(value)
  return {
    key: key === null ? null : Buffer.from(key),
    value: value === null ? null : Buffer.from(bytes),
    headers: [
      ['Trace', Buffer.from('1')],
      ['trace', Buffer.from('2')],
      ['other', Buffer.from('o')]
    ]
  }
}

export function textOf({ value }: Message): string | null {
  return value === null ? null : String(value)
}

/** Why it throws; '' when it does not. */
export function reasonOf(run: () => unknown): string {
  try {
    run()
    return ''
  } catch (cause) {
    return cause instanceof Undelivered ? cause.reason : String(cause)
  }
}

/** A call that knows these variables, and which of them were asked for. */
export function callWith(variables: Readonly<Record<string, string>>): Call & { readonly asked: string[] } {
  const asked: string[] = []
  const call = {
    asked,
    variable(name: string) {
      asked.push(name)
      return variables[name] ?? ''
    }
  }
  return call as unknown as Call & { readonly asked: string[] }
}

/** Faults that a check tells, by their pointers. */
export function faultsOf(check: (fault: (place: string, message: string) => void) => void): Record<string, string> {
  const faults: Record<string, string> = {}
  check((place, text) => {
    faults[place] = text
  })
  return faults
}
