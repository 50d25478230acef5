import { createHash } from 'node:crypto'
import { type Cluster, Command, type Redis } from 'ioredis'
import type { RedisLink } from './redis.ts'

/** Commands in one write; with more, Redis would stand idle while this process makes them, and the other way round. */
const TOGETHER = 8

/**
 * Runs Lua by its hash. Commands of one turn of the event loop leave together, some in one write: that is what
 * ioredis' own pipelining is for, but there the next batch waits until the last was answered, and in a cluster a batch
 * of which one command was redirected fails (bench/micro/redis.ts).
 */
export function scripts(commands: Redis | Cluster): RedisLink['script'] {
  const utf8 = { replyEncoding: 'utf8' } as const
  const corked: Redis['stream'][] = []
  let waiting = 0

  function uncork(): void {
    for (const stream of corked) stream.uncork()
    corked.length = 0
    waiting = 0
  }

  function cork(stream: Redis['stream'] | undefined): void {
    if (stream === undefined) return
    stream.cork()
    corked.push(stream)
  }

  function send(name: 'eval' | 'evalsha', args: readonly (string | number)[]): Promise<unknown> {
    if (commands.status !== 'ready') return Promise.reject(new Error('Connection is closed.'))
    if (corked.length === 0) {
      if (commands.isCluster) for (const { stream } of (commands as Cluster).nodes('master')) cork(stream)
      else cork((commands as Redis).stream)
      setImmediate(uncork)
    }
    const command = new Command(name, args as (string | number)[], utf8)
    commands.sendCommand(command)
    if (++waiting >= TOGETHER) uncork()
    return command.promise
  }

  return text => {
    const sha = createHash('sha1').update(text).digest('hex')
    return (keys, args) => {
      const asked = [sha, keys.length, ...keys, ...args]
      return send('evalsha', asked).then(undefined, error => {
        if (!(error instanceof Error && error.message.startsWith('NOSCRIPT'))) throw error
        return send('eval', [text, ...asked.slice(1)])
      })
    }
  }
}
