import type { Misfit } from '../../api.ts'

/** Names and expressions out of documents and requests may be long. */
const LONGEST_PLACE = 120
const LONGEST_MESSAGE = 200
const CONTROL = /[\p{Cc}\p{Cs}\u2028\u2029]/gu

/** One sentence about what does not fit: its name, the place within it (JSON pointer) and what is expected there. */
export function misfit(place: Misfit['place'], name: string, pointer: string, message: string): Misfit {
  const whole = pointer === '' ? name : `${name} ${pointer}`
  return { place, detail: `${cut(whole, LONGEST_PLACE)} ${cut(message, LONGEST_MESSAGE)}` }
}

function cut(text: string, longest: number): string {
  const tidy = text.slice(0, longest + 1).replace(CONTROL, '?')
  return text.length > longest ? `${tidy.slice(0, longest)}…` : tidy
}
