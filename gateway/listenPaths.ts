import { createHash } from 'node:crypto'
import { Invalid } from '../config/validate.ts'
import type { Api } from './api.ts'
import { type Reading, readApi } from './documents/readApi.ts'
import { fromStored } from './documents/storedApi.ts'
import { Conflict, type Document, type Sequence, type Store, type Write } from './store/store.ts'

/** Why an API cannot be written. */
export class ApiRefused extends Error {
  readonly reason: 'unknown' | 'id taken' | 'other id' | 'path taken' | 'file'
  /** Who has the path. */
  readonly holder: Api | null
  constructor(reason: ApiRefused['reason'], message: string, holder: Api | null = null) {
    super(message)
    this.reason = reason
    this.holder = holder
  }
}

/** Host and listen path, whatever its placeholders are called; null: it has no route, so it takes none. */
export function placeOf({ active, internal, domain, listenSegments }: Api): string | null {
  return active && !internal ? `${domain}/${listenSegments.map(segment => segment ?? '{}').join('/')}` : null
}

/** Body of a `name` document that stands for a place. */
interface Claim {
  readonly api: string
}

/** Who has which place over all processes of one database: a claim is committed together with its API. */
export interface ListenPaths {
  /**
   * What moves an API's claim from one place to another. A claim whose API is gone, or stands elsewhere by now, is nobody's.
   * @throws ApiRefused when another API has the place, which this process may not have heard of yet
   */
  moved(api: Api, from: string | null, to: string | null): Promise<Write[]>
  /** @throws ApiRefused when another process gave the place away in this moment */
  committed(api: Api, commit: () => Promise<Sequence>): Promise<Sequence>
}

export function listenPaths(store: Pick<Store, 'get'>, matching: Reading['matching']): ListenPaths {
  function placeIn({ body }: Document): string | null {
    try {
      return placeOf(readApi(fromStored(body).document, { source: 'store', matching }))
    } catch (cause) {
      if (cause instanceof Invalid) return null
      throw cause
    }
  }

  return {
    async moved(api, from, to) {
      const writes: Write[] = []
      if (from !== null && from !== to) {
        const left = await store.get<Claim>('name', claimId(from))
        if (left?.body.api === api.id) writes.push({ kind: 'name', id: left.id, body: null, expect: left.rev })
      }
      if (to === null) return writes
      const id = claimId(to)
      const present = await store.get<Claim>('name', id)
      if (present?.body.api === api.id) return writes
      const other = present === null ? null : await store.get('api', present.body.api)
      if (other !== null && placeIn(other) === to) throw taken(api)
      const body: Claim = { api: api.id }
      return [...writes, { kind: 'name', id, org: api.orgId, body, expect: present?.rev ?? 0 }]
    },
    async committed(api, commit) {
      try {
        return await commit()
      } catch (cause) {
        if (cause instanceof Conflict && cause.kind === 'name') throw taken(api)
        throw cause
      }
    }
  }
}

function claimId(place: string): string {
  return createHash('sha256').update(`listen path\0${place}`).digest('hex')
}

function taken({ id, name, listenPath }: Api): ApiRefused {
  return new ApiRefused('path taken', `The listen path ${listenPath}/ of API ${id} (${name}) is taken by another API`)
}
