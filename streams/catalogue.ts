import type { InputKind, OutputKind, ProcessorKind } from './connector.ts'
import { httpClientInput } from './connectors/httpClientInput.ts'
import { httpClientOutput } from './connectors/httpClientOutput.ts'
import { kafkaInput } from './connectors/kafkaInput.ts'
import { kafkaOutput } from './connectors/kafkaOutput.ts'
import { filter } from './processors/filter.ts'
import { jsonSchema } from './processors/jsonSchema.ts'
import { map } from './processors/map.ts'

/** Every kind of connector and processor that there is; `http_server` is served by the router. */

export const inputs: readonly InputKind[] = [kafkaInput, httpClientInput]
export const outputs: readonly OutputKind[] = [kafkaOutput, httpClientOutput]
export const processors: readonly ProcessorKind[] = [jsonSchema, filter, map]
