import { BrokerInput } from '../../config/shape/stream.ts'
import type { Input, InputKind, InputStatus } from '../connector.ts'

interface Options {
  readonly copies?: number
}

/** Several sources as one: their messages come as each brings them. */
export const brokerInput: InputKind = {
  name: 'broker',
  shape: BrokerInput,
  open({ options, children }, deliver, tools) {
    const { copies = 1 } = options as Options
    const inputs: readonly Input[] = Array.from({ length: copies }, () =>
      children.map(child => tools.input(child, deliver))
    ).flat()
    return {
      fault: () => inputs.map(input => input.fault()).find(fault => fault !== null) ?? null,
      status: () => totalOf(inputs),
      async close() {
        await Promise.all(inputs.map(input => input.close()))
      }
    }
  }
}

/** What several inputs count together. */
export function totalOf(inputs: readonly Input[]): InputStatus {
  const total = { dropped: 0, redelivered: 0, lag: 0, partitions: 0 }
  for (const input of inputs) {
    const status = input.status?.()
    if (status === undefined) continue
    total.dropped += status.dropped
    total.redelivered += status.redelivered
    total.lag += status.lag
    total.partitions += status.partitions
  }
  return total
}
