import { join } from 'node:path'

/**
 * Environment of every process that tests start: what Node has compiled once, it does not compile again, as with `npm start`.
 * It takes off half of the time that a gateway needs to be ready.
 */
export const compiled = { NODE_COMPILE_CACHE: join(import.meta.dirname, '../../node_modules/.cache/compiled') }
