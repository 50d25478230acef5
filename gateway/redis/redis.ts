import type { Cluster, Redis } from 'ioredis'

/**
 * One connection to Redis or Valkey (or a cluster), for everything that this process keeps there. It never queues: while
 * there is no connection, commands are rejected at once. `openRedis` makes it.
 */
export interface RedisLink {
  /** For single commands. What it rejects with is told by `causeOf`. */
  readonly commands: Redis | Cluster
  readonly isCluster: boolean
  /** `storage.counters.key_prefix`: begins every key and channel. */
  readonly prefix: string
  readonly isConnected: boolean
  /** Told at once whenever that changes. The answer ends the listening. */
  onConnected(listener: (isConnected: boolean) => void): () => void
  /**
   * Runs a Lua script by its hash; sends its text again where the server has forgotten it (a flush, another primary).
   * In a cluster all keys lie in one slot.
   */
  script(text: string): (keys: readonly string[], args: readonly (string | number)[]) => Promise<unknown>
  publish(channel: string, message: string): Promise<void>
  /**
   * Hears of a channel's messages. Null: some may have been missed, since the listening begins just now or anew after a
   * lost connection. The answer ends the listening.
   */
  subscribe(channel: string, listener: (message: string | null) => void): () => void
  close(): Promise<void>
}
