import type { Cluster, Redis } from 'ioredis'

/**
 * Asks the server what it is, and whether this user may do what the gateway does.
 * @throws Error in one line
 */
export async function checkVersion(commands: Redis | Cluster, prefix: string): Promise<void> {
  const info = String(await commands.info('server'))
  const of = (name: string) => new RegExp(`^${name}:(.*?)\r?$`, 'm').exec(info)?.[1] ?? ''
  // Valkey tells Redis 7.2.4 as its version, for the sake of clients.
  const isValkey = of('valkey_version') !== ''
  const version = of('redis_version')
  if (!isValkey && !(Number.parseInt(version, 10) >= 5))
    throw new Error(`Redis ${version === '' ? 'of an unknown version' : version} is too old, 5 or later is needed`)
  if (!commands.isCluster && of('redis_mode') === 'cluster')
    throw new Error('this is a node of a cluster, which storage.counters.nodes is for')
  // One key that is never there: scripts, the key names and the channels are all that the gateway uses.
  await commands.eval("return redis.call('EXISTS', KEYS[1])", 1, `${prefix}:start`)
  await commands.publish(`${prefix}:start`, '')
}
