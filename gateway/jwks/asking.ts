import { Agent } from 'undici'
import { safeLookup } from '../../streams/linkLocal.ts'

/** What asking identity providers has in common, whatever they are asked. */

/** For a whole answer, milliseconds: names, redirects, the last byte. */
export const WHOLE_MS = 5_000

/** Why there is no answer, in words for the log: never what the other side said. */
export class NoAnswer extends Error {}

/** @param connections to one origin at once; questions beyond wait, within their time */
export function askingAgent(connections: number): Agent {
  return new Agent({
    connections,
    pipelining: 1,
    connect: { lookup: safeLookup, timeout: WHOLE_MS },
    headersTimeout: WHOLE_MS,
    bodyTimeout: WHOLE_MS,
    maxHeaderSize: 32_768
  })
}

/** A body as JSON. @throws NoAnswer when it is longer than `most` bytes, or none */
export async function jsonOf(body: AsyncIterable<Buffer> & { destroy(): unknown }, most: number): Promise<unknown> {
  const chunks: Buffer[] = []
  let size = 0
  for await (const chunk of body) {
    size += chunk.length
    if (size > most) {
      body.destroy()
      throw new NoAnswer(`it answers more than ${most} bytes`)
    }
    chunks.push(chunk)
  }
  try {
    return JSON.parse(Buffer.concat(chunks).toString())
  } catch {
    throw new NoAnswer('it answers no JSON')
  }
}

/** @param isLate the time for a whole answer is over */
export function noAnswer(cause: unknown, isLate: boolean): NoAnswer {
  if (cause instanceof NoAnswer) return cause
  return new NoAnswer(isLate ? 'it takes too long' : reasonOf(cause), { cause })
}

function reasonOf(cause: unknown): string {
  const { code, message } = cause as { code?: unknown; message?: unknown }
  // Several addresses of one host fail together, without a text of their own.
  if (cause instanceof AggregateError && cause.errors.length > 0) return reasonOf(cause.errors[0])
  return typeof code === 'string' && code !== '' ? code : String(message)
}
