import type { Clock, Random } from '../config/world.ts'
import { Conflict, type Store } from '../gateway/store/store.ts'
import type { Vault } from '../gateway/vault.ts'
import { newId } from './ids.ts'
import { newUser, userWrites } from './users.ts'

/**
 * Where there is no user at all, makes the administrator of the organisation `default`, active.
 * @param accessKey asked only then
 */
export async function firstUser(
  { store, vault, clock, random }: { store: Store; vault: Vault; clock: Clock; random: Random },
  accessKey: () => string
): Promise<void> {
  const { total } = await store.list('user', { page: 1, size: 1, idsOnly: true })
  if (total > 0) return
  const given = { active: true, email_address: 'admin@localhost', first_name: 'Administrator', org_id: 'default' }
  const user = newUser(given, newId({ clock, random }), new Date(clock.now()).toISOString())
  try {
    await store.commit(userWrites(user, accessKey(), '', vault))
  } catch (cause) {
    // Another process on the same database was faster.
    if (!(cause instanceof Conflict)) throw cause
  }
}
