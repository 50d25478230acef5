import type { HttpServerOutput, KafkaInput, KafkaOutput } from '../../config/shape/stream.ts'
import { servers } from '../brokers/addresses.ts'
import type { Fault } from '../connector.ts'
import { joiningOf } from '../connectors/kafkaOptions.ts'
import { deliveryOptions } from '../options.ts'
import type { StreamPlan } from '../plan.ts'
import { type Placed, placed } from './placed.ts'

/** A stream that would read what it writes would never come to rest. Topics with variables are known only as messages come. */
export function checkLoops({ input, output }: StreamPlan, fault: Fault): void {
  const inputs = placed(input, 'input').filter(isKafka)
  const [first] = inputs
  if (first === undefined) return
  for (const { place, kind, options } of placed(output, 'output'))
    if (kind === 'kafka') {
      const { addresses, topic } = options as KafkaOutput
      if (reads(inputs, addresses, topic))
        fault(`${place}/topic`, 'is a topic of the input: it would read what it writes')
    } else if (kind === 'http_server') {
      // Dead letters go to the broker of the first input.
      const { addresses } = first.options as KafkaInput
      const { deadLetterTopic } = deliveryOptions(options as HttpServerOutput)
      if (deadLetterTopic !== '' && reads(inputs, addresses, deadLetterTopic))
        fault(`${place}/dead_letter_topic`, 'is a topic of the input: it would read what it writes')
    }
}

function isKafka({ kind }: Placed): boolean {
  return kind === 'kafka'
}

function reads(inputs: readonly Placed[], addresses: readonly string[], topic: string): boolean {
  const own = new Set(clusterOf(addresses))
  return inputs.some(({ options }) => {
    const given = options as KafkaInput
    return joiningOf(given, '').topics.includes(topic) && clusterOf(given.addresses).some(server => own.has(server))
  })
}

/** Names of hosts know no case, those of embedded brokers do; one server in common is the same cluster. */
function clusterOf(addresses: readonly string[]): readonly string[] {
  return servers(addresses).map(server => (server.startsWith('memory://') ? server : server.toLowerCase()))
}
