import type { Output, Process } from '../connector.ts'
import type { Message } from '../message.ts'
import { type Fate, Undelivered } from '../undelivered.ts'

/** Messages on their way through processors to whatever stands behind them. */

/** An output behind its processors. */
export function processed(output: Output, process: readonly Process[]): Output {
  if (process.length === 0) return output
  return {
    send: (messages, call, deadline) => passing(process, messages, left => output.send(left, call, deadline)),
    fault: () => output.fault(),
    close: () => output.close()
  }
}

/**
 * Runs messages through, and sends what is left of them. Answers what that did, with null for what was filtered out.
 * @throws Undelivered: nothing is sent when one of them does not fit
 */
export async function passing<T>(
  process: readonly Process[],
  messages: readonly Message[],
  send: (left: readonly Message[]) => Promise<readonly T[] | void>
): Promise<(T | null)[]> {
  const fates: Fate[] = []
  const left: Message[] = []
  const indexes: number[] = []
  let unfit: Undelivered | null = null
  for (let i = 0; i < messages.length; i++) {
    try {
      const message = through(process, messages[i]!)
      fates.push(message === null ? null : undefined)
      if (message === null) continue
      left.push(message)
      indexes.push(i)
    } catch (cause) {
      if (!(cause instanceof Undelivered)) throw cause
      fates.push(cause)
      unfit ??= cause
    }
  }
  if (unfit !== null) throw apart(unfit, fates)
  const answers: (T | null)[] = messages.map(() => null)
  if (left.length === 0) return answers
  try {
    const sent = await send(left)
    if (sent) for (let k = 0; k < indexes.length; k++) answers[indexes[k]!] = sent[k]!
    return answers
  } catch (cause) {
    if (!(cause instanceof Undelivered)) throw cause
    const each = cause.each ?? (left.length === 1 ? [cause] : null)
    if (each === null) throw cause
    for (let k = 0; k < indexes.length; k++) fates[indexes[k]!] = each[k]
    throw apart(cause, fates)
  }
}

function apart(cause: Undelivered, each: readonly Fate[]): Undelivered {
  const { reason, message, isForeign } = cause
  return each.length === 1 ? cause : new Undelivered(reason, message, { cause, each, isForeign })
}

/** What processors leave of one message; null: it is filtered out. @throws what one of them throws */
export function through(process: readonly Process[], message: Message): Message | null {
  let left: Message | null = message
  for (let i = 0; i < process.length && left !== null; i++) left = process[i]!(left)
  return left
}
