import type { Clock, Log } from '../../config/world.ts'
import { Conflict, type Document, type Store, Unavailable } from '../store/store.ts'
import type { Vault } from '../vault.ts'

/**
 * After a change of the encoding secret: what lies in the store sealed under an earlier one is sealed anew, one document a
 * commit, so that it may end at any moment and goes on with the next start.
 */

/** Kinds with something sealed: private keys of certificates, access keys of users. Its place is `<kind>/<id>`. */
const KINDS = ['certificate', 'user'] as const

interface Sealed {
  /** '' for nothing. */
  readonly sealedKey: string
}

export interface ResealingGiven {
  readonly store: Pick<Store, 'get' | 'each' | 'commit'>
  readonly vault: Vault
  readonly clock: Clock
  readonly log: Log
}

/** Documents that are written at once. */
const TOGETHER = 16
/** Writers that are faster than we are: tries for one document. */
const MOST_TRIES = 10
/** A line of progress for so many. */
const PROGRESS = 1_000
/** Ids that are told of what cannot be opened. */
const MOST_TOLD = 5
/** While the store is away, it is asked again so often. */
const AGAIN_MS = 10_000

/** Begins at once, beside whatever else goes on. The answer ends it after what is being written. */
export function resealing({ store, vault, clock, log }: ResealingGiven): () => Promise<void> {
  let isOver = false
  let cancel = () => {}
  let anew = 0
  let running = run()

  async function run(): Promise<void> {
    try {
      await resealAll()
    } catch (cause) {
      if (!(cause instanceof Unavailable))
        return log.error('secrets could not be sealed anew', { cause: (cause as Error).message })
      if (isOver) return
      cancel = clock.after(AGAIN_MS, () => {
        running = run()
      })
    }
  }

  async function resealAll(): Promise<void> {
    const lost: string[] = []
    let count = 0
    for (const kind of KINDS)
      for await (const documents of store.each<Sealed>(kind, {})) {
        const foreign = documents.filter(isForeign)
        for (let i = 0; i < foreign.length; i += TOGETHER) {
          if (isOver) return
          const states = await Promise.all(foreign.slice(i, i + TOGETHER).map(reseal))
          const before = anew
          for (const [n, state] of states.entries())
            if (state === 'anew') anew++
            else if (state === 'lost' && count++ < MOST_TOLD) lost.push(`${kind}/${foreign[i + n]!.id}`)
          if (Math.floor(before / PROGRESS) < Math.floor(anew / PROGRESS))
            log.info('secrets in the store are being sealed anew', { done: anew })
        }
      }
    if (anew > 0) log.info('secrets in the store were sealed anew', { done: anew })
    if (count > 0)
      log.error(
        'secrets in the store cannot be opened: they were sealed under a secret that the settings do not name',
        {
          count,
          first: lost
        }
      )
  }

  function isForeign({ body: { sealedKey } }: Document<Sealed>): boolean {
    return sealedKey !== '' && !vault.isOwn(sealedKey)
  }

  async function reseal(found: Document<Sealed>): Promise<'anew' | 'done' | 'lost'> {
    const { kind, id } = found
    let document: Document<Sealed> | null = found
    for (let tries = 0; tries < MOST_TRIES; tries++) {
      // Somebody has deleted it, or sealed it under the present secret.
      if (document === null || !isForeign(document)) return 'done'
      const { org, rev, body } = document
      const place = `${kind}/${id}`
      const text = vault.open(body.sealedKey, place)
      if (text === null) return 'lost'
      try {
        await store.commit([{ kind, id, org, body: { ...body, sealedKey: vault.seal(text, place) }, expect: rev }])
        return 'anew'
      } catch (cause) {
        if (!(cause instanceof Conflict)) throw cause
        document = await store.get<Sealed>(kind, id)
      }
    }
    // Whoever writes it that often: the next start looks again.
    return 'done'
  }

  return async () => {
    isOver = true
    cancel()
    await running
  }
}
