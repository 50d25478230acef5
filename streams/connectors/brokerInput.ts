import { BrokerInput } from '../../config/shape/stream.ts'
import type { Input, InputKind } from '../connector.ts'

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
      async close() {
        await Promise.all(inputs.map(input => input.close()))
      }
    }
  }
}
