import type { Redis } from 'ioredis'
import type { Log } from '../../config/world.ts'
import { causeOf } from './faults.ts'

/** As it is called when a connection begins. */
type Login = (...args: string[]) => Promise<'OK'>

/** A login that the server has no use for: whether it takes commands all the same, the next one tells. */
const useless =
  /no password is set|without any password configured for the default user|wrong number of arguments for 'auth'/

/**
 * For each connection: a login that the server does not need becomes one line in the log, where ioredis would write to
 * stderr each time it connects.
 */
export function logins(log: Log): (redis: Redis) => void {
  let isTold = false
  return redis => {
    const login = redis.auth.bind(redis) as unknown as Login
    const quiet: Login = (...args) =>
      login(...args).catch((error: unknown) => {
        if (!useless.test(causeOf(error))) throw error
        if (!isTold)
          log.warn('Redis has no use for the user or password in storage.counters', { cause: causeOf(error) })
        isTold = true
        return 'OK' as const
      })
    redis.auth = quiet as unknown as Redis['auth']
  }
}
