import t from 'tap'
import { systemClock } from '../../config/world.ts'
import { storePostgres } from '../../gateway/store/storePostgres.ts'
import { storeContract } from '../contract/store.ts'
import { type PostgresVersion, postgres } from '../helpers/postgres.ts'

const log = { debug() {}, info() {}, warn() {}, error: console.error }

/** The contract, each case in a database of its own. */
export async function contractOn(version: PostgresVersion): Promise<void> {
  t.setTimeout(180_000)
  const server = await postgres(t, { version })
  storeContract(t, async () => storePostgres({ url: await server.database(), poolSize: 4, clock: systemClock, log }))
}
