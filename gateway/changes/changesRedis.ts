import type { RedisLink } from '../redis/redis.ts'
import type { Bell } from './bell.ts'

export interface RedisBellGiven {
  readonly link: Pick<RedisLink, 'prefix' | 'publish' | 'subscribe'>
  /** Which store it is about: each counts its commits by itself. */
  readonly of: 'documents' | 'keys'
}

/** A bell over publish/subscribe on the channel `<prefix>:changes` (of keys: `<prefix>:changes:keys`); a message is a sequence. */
export function changesRedis({ link, of }: RedisBellGiven): Bell {
  const channel = of === 'documents' ? `${link.prefix}:changes` : `${link.prefix}:changes:keys`
  return {
    ring(sequence) {
      // Lost messages are what followers look by themselves for.
      link.publish(channel, String(sequence)).catch(() => {})
    },
    listen(listener) {
      return link.subscribe(channel, message => {
        const sequence = message === null ? null : Number(message)
        listener(Number.isSafeInteger(sequence) ? sequence : null)
      })
    }
  }
}
