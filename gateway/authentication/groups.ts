import type { Api, Authentication, Scheme, SchemeKind } from '../api.ts'
import { ANSWERED, type Exchange, type Outcome, type Run } from '../exchange.ts'
import { refusals } from '../refusals.ts'
import type { Tools } from '../steps/step.ts'
import { tellLate } from './failure.ts'
import type { Method } from './method.ts'
import { method } from './methods.ts'

/** What a method has left in the exchange. */
type Found = Pick<Exchange, 'key' | 'credential' | 'claims' | 'validUntil'> & { readonly kind: SchemeKind }

/** Alternatives of methods that must all succeed (semantics §6.10); the first that does gives the session. */
export function identification(authentication: Authentication, api: Api, tools: Tools): Run {
  const made = new Map<Scheme, Method>()
  const methodOf = (scheme: Scheme): Method => {
    const known = made.get(scheme) ?? method(scheme, api, tools)
    made.set(scheme, known)
    return known
  }
  const groups = authentication.groups.map(group => group.map(methodOf))
  const [first] = groups
  if (groups.length === 1 && first!.length === 1) return first![0]!.run
  const { base } = authentication
  if (groups.length === 1) return x => any(x, groups, base)
  return async x => {
    x.failures = 'later'
    const outcome = await any(x, groups, base)
    // Who has been let in after all has failed at nothing.
    if (outcome === undefined) x.failures = 'at once'
    else tellLate(x, tools.events)
    return outcome
  }
}

async function any(x: Exchange, groups: readonly (readonly Method[])[], base: SchemeKind | null): Promise<Outcome> {
  let outcome: Outcome = refusals.keyMissing
  // That of a client certificate, which was looked at before.
  const until = x.validUntil
  for (const group of groups) {
    outcome = await all(x, group, base)
    x.validUntil = Math.min(until, x.validUntil)
    if (outcome === undefined || outcome === ANSWERED) return outcome
    // Who is known and switched off is refused, whatever others might do without a credential.
    if (outcome === refusals.keyInactive || outcome === refusals.keyExpired) return outcome
  }
  return outcome
}

/** The first refusal, or the session of the method that `base` names, else of the last one. */
async function all(x: Exchange, group: readonly Method[], base: SchemeKind | null): Promise<Outcome> {
  let kept: Found | null = null
  // Whichever of the credentials ends first.
  let until = Number.POSITIVE_INFINITY
  for (const { kind, run } of group) {
    put(x, NOBODY)
    const outcome = await run(x)
    until = Math.min(until, x.validUntil)
    const refused = outcome ?? (group.length > 1 ? lifeless(x) : undefined)
    if (refused !== undefined) {
      put(x, NOBODY)
      return refused
    }
    if (kept === null || kept.kind !== base) kept = taken(x, kind)
  }
  put(x, kept ?? NOBODY)
  x.validUntil = until
  return undefined
}

/** A key or user that is switched off counts for nothing beside another one either; whose rights count is another matter. */
function lifeless({ key, at }: Exchange): Outcome {
  if (key === null) return undefined
  if (key.inactive) return refusals.keyInactive
  return at >= key.expiresMs ? refusals.keyExpired : undefined
}

const NOBODY = { key: null, credential: null, claims: null, validUntil: Number.POSITIVE_INFINITY }

function taken({ key, credential, claims, validUntil }: Exchange, kind: SchemeKind): Found {
  return { kind, key, credential, claims, validUntil }
}

function put(x: Exchange, { key, credential, claims, validUntil }: Omit<Found, 'kind'>): void {
  x.key = key
  x.credential = credential
  x.claims = claims
  x.validUntil = validUntil
}
