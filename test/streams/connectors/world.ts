import { systemClock } from '../../../config/world.ts'
import type { Connector, ConnectorTools, Deliver, Input, Output } from '../../../streams/connector.ts'
import type { Message } from '../../../streams/message.ts'

export interface Told {
  readonly msg: string
  readonly fields: Record<string, unknown>
}

/** What connectors are opened with; children of brokers come from the test. */
export function world(
  children: {
    output?: (connector: Connector) => Output
    input?: (connector: Connector, deliver: Deliver) => Input
  } = {},
  clock = systemClock
): ConnectorTools & { readonly told: Told[] } {
  const told: Told[] = []
  const write = (msg: string, fields = {}) => void told.push({ msg, fields })
  const none = () => {
    throw new Error('the test has none')
  }
  return {
    told,
    clock,
    log: { debug: write, info: write, warn: write, error: write },
    random: { bytes: count => Buffer.alloc(count) },
    api: 'api',
    stream: 'stream',
    broker: none,
    output: children.output ?? none,
    input: children.input ?? none
  }
}

export function connector(kind: string, options: unknown, children: readonly Connector[] = []): Connector {
  return { kind, label: '', options, processors: [], children }
}

export function message(value: string | Buffer | null, headers: Record<string, string> = {}): Message {
  return {
    key: null,
    value: value === null ? null : Buffer.from(value),
    headers: Object.entries(headers).map(([name, text]) => [name, Buffer.from(text)] as const)
  }
}

/** Pointers of the faults that a check tells. */
export function faultsOf(kind: { check?(options: unknown, fault: (pointer: string) => void): void }, options: unknown) {
  const pointers: string[] = []
  kind.check?.(options, pointer => void pointers.push(pointer))
  return pointers
}
