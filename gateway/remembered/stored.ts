import type { Outcome, Partial } from '../../streams/produce/remembered.ts'

/** As text for Redis; bodies in base64. */

/** Longest text of an answer with its body: some 10,000 messages. */
const MOST_TEXT = 2_097_152

/** An answer that is too long is kept without its body: that nothing is sent twice counts more. */
export function outcomeText(outcome: Outcome): string {
  if ('code' in outcome) return JSON.stringify(outcome)
  const { status, pairs, body } = outcome
  const text = body === null ? null : body.toString('base64')
  if (text === null || text.length <= MOST_TEXT) return JSON.stringify({ status, pairs, body: text })
  const kept: string[] = []
  for (let i = 0; i < pairs.length; i += 2)
    if (pairs[i]!.toLowerCase() !== 'content-type') kept.push(pairs[i]!, pairs[i + 1]!)
  return JSON.stringify({ status, pairs: kept, body: null })
}

/** @throws SyntaxError for what none of us wrote */
export function outcomeOf(text: string): Outcome {
  const kept = JSON.parse(text)
  return typeof kept.body === 'string' ? { ...kept, body: Buffer.from(kept.body, 'base64') } : kept
}

/** At most as long as `MOST_MESSAGES` results are. */
export function partialText({ results }: Partial): string {
  return JSON.stringify(results)
}

/** @throws SyntaxError for what none of us wrote */
export function partialOf(text: string): Partial {
  return { results: JSON.parse(text) }
}
