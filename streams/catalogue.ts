import type { InputKind, OutputKind, ProcessorKind } from './connector.ts'
import { brokerInput } from './connectors/brokerInput.ts'
import { brokerOutput } from './connectors/brokerOutput.ts'
import { httpClientInput } from './connectors/httpClientInput.ts'
import { httpClientOutput } from './connectors/httpClientOutput.ts'
import { kafkaInput } from './connectors/kafkaInput.ts'
import { kafkaOutput } from './connectors/kafkaOutput.ts'
import { websocketInput } from './connectors/websocketInput.ts'
import { websocketOutput } from './connectors/websocketOutput.ts'
import { filter } from './processors/filter.ts'
import { jsonSchema } from './processors/jsonSchema.ts'
import { map } from './processors/map.ts'

/** Every kind of connector and processor that there is; `http_server` is served by the router. */

export const inputs: readonly InputKind[] = [kafkaInput, httpClientInput, websocketInput, brokerInput]
export const outputs: readonly OutputKind[] = [kafkaOutput, httpClientOutput, websocketOutput, brokerOutput]
export const processors: readonly ProcessorKind[] = [jsonSchema, filter, map]
