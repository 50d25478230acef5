import type { Log } from '../../../config/world.ts'
import { Budget } from '../../../streams/budget.ts'
import type { Call } from '../../../streams/call.ts'
import { Connections } from '../../../streams/connections.ts'
import type { Output, Process } from '../../../streams/connector.ts'
import type { Message, Placed } from '../../../streams/message.ts'
import { producerOptions } from '../../../streams/options.ts'
import { template } from '../../../streams/processors/template.ts'
import { type Producer, producer } from '../../../streams/produce/producer.ts'
import { type Remembered, rememberedMemory } from '../../../streams/produce/remembered.ts'
import { type HandClock, handClock } from '../../helpers/clock.ts'

/** An output that a test answers for. */
export interface Sink extends Output {
  readonly messages: Message[]
  readonly calls: (Call | null)[]
  readonly deadlines: number[]
  /** What becomes of one call's messages. */
  behave: (messages: readonly Message[]) => Promise<readonly (Placed | null)[]> | readonly (Placed | null)[]
}

export function sink(): Sink {
  const made: Sink = {
    messages: [],
    calls: [],
    deadlines: [],
    behave: messages => messages.map((_, i) => ({ topic: 't', partition: 1, offset: 7 + i, timestamp: 1000 })),
    async send(messages, call, deadline) {
      made.messages.push(...messages)
      made.calls.push(call)
      made.deadlines.push(deadline)
      return made.behave(messages)
    },
    fault: () => null,
    close: async () => {}
  }
  return made
}

export interface Made {
  readonly producer: Producer
  readonly sink: Sink
  readonly clock: HandClock
  readonly connections: Connections
  readonly budget: Budget
  readonly log: { readonly msg: string; readonly fields: Record<string, unknown> }[]
}

export interface Wanted {
  readonly options?: Parameters<typeof producerOptions>[0]
  readonly process?: readonly Process[]
  readonly remembered?: Remembered
  readonly clock?: HandClock
  readonly budget?: Budget
}

export const bounds = { max_clients: 100, max_clients_per_key: 0, max_clients_per_address: 0 }

export function made(want: Wanted = {}): Made {
  const clock = want.clock ?? handClock()
  const output = sink()
  const connections = new Connections(bounds)
  const budget = want.budget ?? new Budget(1_000_000_000)
  const log: { msg: string; fields: Record<string, unknown> }[] = []
  const write = (msg: string, fields = {}) => void log.push({ msg, fields })
  const all: Log = { debug: write, info: write, warn: write, error: write }
  return {
    producer: producer({
      options: producerOptions(want.options ?? {}),
      process: want.process ?? [],
      output,
      connections,
      remembered: want.remembered ?? rememberedMemory(clock),
      budget,
      clock,
      log: all,
      random: { bytes: count => Buffer.alloc(count) },
      api: 'api',
      stream: 'stream',
      template
    }),
    sink: output,
    clock,
    connections,
    budget,
    log
  }
}
