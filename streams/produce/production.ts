import type { Clock } from '../../config/world.ts'
import type { Budget } from '../budget.ts'
import type { Call } from '../call.ts'
import type { Output, Process } from '../connector.ts'
import type { Message } from '../message.ts'
import type { ProducerOptions } from '../options.ts'
import { through } from '../processors/passing.ts'
import type { Failures } from './answers.ts'
import type { Carried } from './carried.ts'
import type { Remembered } from './remembered.ts'

/** What the requests and connections of one producer share. */
export interface Production {
  readonly api: string
  readonly stream: string
  readonly options: ProducerOptions
  readonly process: readonly Process[]
  readonly output: Output
  readonly remembered: Remembered
  readonly budget: Budget
  readonly clock: Clock
  readonly failures: Failures
  readonly carried: Carried
  /** Null: messages have no key. @throws Undelivered ('invalid') */
  readonly key: ((message: Message, call: Call) => Buffer | null) | null
  /** Headers of an answer to what was delivered. */
  readonly answerPairs: (call: Call) => string[]
  readonly isClosing: boolean
  /** So many messages were delivered. */
  counted(messages: number): void
}

/** Null: filtered out. @throws Undelivered */
export function prepared({ key, process }: Production, plain: Message, call: Call): Message | null {
  return through(process, key === null ? plain : { ...plain, key: key(plain, call) })
}
