import type { Endpoint } from '../endpoint.ts'
import { apis } from './apis.ts'
import { audit } from './audit.ts'
import { description } from './description.ts'
import { keys } from './keys.ts'
import { policies } from './policies.ts'

/** Every operation of the management interface. */
export const endpoints: readonly Endpoint[] = [...keys, ...policies, ...apis, ...audit, ...description(() => endpoints)]
