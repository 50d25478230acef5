import type { RedisLink } from '../../redis/redis.ts'

/** The newest are kept for those who could not hear them. */
const KEPT = 256

export interface Listening {
  /** Reads what may have been missed, if anything may. Redis must have been asked before counters are believed again. */
  catchUp(): Promise<void>
  end(): void
}

/** That counters were cleared, said to all processes: at once to those who listen, later to those who were away. */
export interface Forgotten {
  /** Keeps it for those who are away. Answers what is to be published once the counters are cleared. */
  keep(ids: readonly string[]): Promise<string>
  readonly channel: string
  /** As `Remote.onForgotten`; null: some were missed, and nobody knows which. */
  listen(listener: (ids: readonly string[] | null) => void): Listening
}

export function forgotten(link: RedisLink): Forgotten {
  const channel = `${link.prefix}:forgotten`
  const kept = `${link.prefix}:forgets`

  async function add(ids: readonly string[]): Promise<string> {
    return (await link.commands.xadd(kept, 'MAXLEN', KEPT, '*', 'ids', JSON.stringify(ids)))!
  }

  function listen(listener: (ids: readonly string[] | null) => void): Listening {
    /** Numbers of those that were heard or are older than this listening, in the order in which they came. */
    const known = new Set<string>()
    let isUnsure = false
    let reading: Promise<void> | null = null
    let isEnded = false

    const end = link.subscribe(channel, message => {
      if (message === null) {
        isUnsure = true
        void catchUp()
        return
      }
      const [number, ids] = partsOf(message)
      if (number !== null) know(number)
      listener(ids)
    })

    function know(number: string): void {
      known.add(number)
      if (known.size > 2 * KEPT) known.delete(known.values().next().value!)
    }

    function catchUp(): Promise<void> {
      reading ??= read().finally(() => {
        reading = null
      })
      return reading
    }

    async function read(): Promise<void> {
      while (isUnsure && !isEnded) {
        isUnsure = false
        const last = [...known].at(-1)
        try {
          const entries = await link.commands.xrange(kept, '-', '+')
          // From then on it is never empty, unless Redis has lost it.
          if (entries.length === 0) entries.push([await add([]), ['ids', '[]']])
          if (!isEnded) replay(entries, last)
        } catch {
          isUnsure = !link.isConnected
          if (isUnsure) return
          known.clear()
          if (!isEnded) listener(null)
        }
      }
    }

    /** @param last what was heard last before they were read */
    function replay(entries: readonly [string, string[]][], last: string | undefined): void {
      const missed = entries.filter(([number]) => !known.has(number))
      // Else there were more than are kept, or Redis is not the one that it was.
      const isWhole = known.has(entries[0]![0]) && entries.some(([number]) => number === last)
      for (const [number] of missed) know(number)
      if (!isWhole) return listener(null)
      for (const [, [, text]] of missed) listener(idsOf(text ?? ''))
    }

    return {
      catchUp,
      end() {
        isEnded = true
        end()
      }
    }
  }

  return { channel, keep: async ids => JSON.stringify([`#${await add(ids)}`, ...ids]), listen }
}

/** Its number, where it has one, and its ids. */
function partsOf(message: string): [string | null, string[] | null] {
  const ids = idsOf(message)
  if (ids === null || !ids[0]?.startsWith('#')) return [null, ids]
  return [ids[0].slice(1), ids.slice(1)]
}

/** Null: not what this gateway says there. */
function idsOf(text: string): string[] | null {
  try {
    const ids: unknown = JSON.parse(text)
    return Array.isArray(ids) && ids.every(id => typeof id === 'string') ? ids : null
  } catch {
    return null
  }
}
