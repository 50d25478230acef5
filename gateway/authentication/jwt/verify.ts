import type { Log } from '../../../config/world.ts'
import type { Api, JwtScheme } from '../../api.ts'
import { type KeySets, KeySetUnavailable } from '../../jwks/keySets.ts'
import type { Keys } from '../../keys/keys.ts'
import type { Refusal } from '../../refusals.ts'
import { claimReason, endOf, subjectOf, timeReason } from './claims.ts'
import { type Jws, readJws } from './compact.ts'
import type { JwtRefusals } from './refusals.ts'
import { isSigned } from './signature.ts'
import { type Candidates, keysOf } from './sources.ts'
import type { Verified } from './verified.ts'

export interface VerifyTools {
  readonly keySets: Pick<KeySets, 'get' | 'epoch'>
  readonly keys: Pick<Keys, 'find'>
  readonly log: Log
}

/** How long a verification counts at most where no key set says it. */
const LONGEST_MS = 600_000

/** @param at milliseconds since the epoch */
export type Verify = (token: string, at: number) => Verified | Refusal | Promise<Verified | Refusal>

/** Whether tokens count, by one scheme of an API: form, method, signature, times, claims, subject, in this order. */
export function verifying(scheme: JwtScheme, api: Api, refuse: JwtRefusals, tools: VerifyTools): Verify {
  const { keySets, log } = tools
  const find = keysOf(scheme, api, tools)
  const warn = (reason: string) => log.warn('a token is let through although it does not fit', { api: api.id, reason })

  async function signed(jws: Jws, at: number): Promise<Verified | Refusal> {
    const { epoch } = keySets
    try {
      const keys = find(jws)
      let found: Candidates | null = keys instanceof Promise ? await keys : keys
      for (; found !== null; found = found.more === null ? null : await found.more())
        for (const key of found.keys) if (await isSigned(jws, key)) return said(jws, found, epoch, at)
      return refuse.invalid
    } catch (cause) {
      if (cause instanceof KeySetUnavailable) return refuse.noKeys
      throw cause
    }
  }

  function said({ claims, kid }: Jws, { owner, until }: Candidates, epoch: number, at: number): Verified | Refusal {
    const reason = timeReason(claims, scheme, at) ?? claimReason(claims, scheme, warn)
    if (reason !== null) return refuse.claims(reason)
    const name = owner === null ? subjectOf(claims, kid, scheme) : ''
    if (name === null) return refuse.nobody
    const end = endOf(claims, scheme)
    const counts = Math.min(end, until, at + LONGEST_MS)
    const asked = { policies: null, session: null, version: 0, againAt: 0 }
    return { claims, owner, name, end, until: counts, epoch, ...asked }
  }

  return (token, at) => {
    const jws = readJws(token, scheme.family)
    if (jws === 'malformed') return refuse.invalid
    if (jws === 'other method') return refuse.otherMethod
    return signed(jws, at)
  }
}
