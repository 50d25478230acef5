import type { Clock } from '../../../config/world.ts'
import type { Claim, JwtScheme } from '../../api.ts'
import { type Claims, claimAt, claimedName } from '../../keys/claims.ts'
import type { Keys, Session } from '../../keys/keys.ts'
import { customId } from '../../keys/token.ts'
import { type Refusal, refusal } from '../../refusals.ts'

/** Which policies a verified token stands for (semantics §6.6, the table of scopes; interface specification, Authentication 3). */

/** Texts and statuses: semantics §6.2. */
export const policyRefusals = {
  noPolicyFound: refusal('jwt_no_policy', 403, 'key not authorized: no matching policy found'),
  noScopePolicy: refusal('jwt_no_scope_policy', 403, 'key not authorized: no matching policy found in scope claim'),
  neitherScopeNorPolicy: refusal('jwt_no_scope', 403, 'key not authorized: no scope or policy in token'),
  noPolicy: refusal('jwt_policy_unknown', 403, 'key not authorized: no matching policy'),
  policyUnfit: refusal('jwt_policy_unfit', 403, 'key not authorized: could not apply new policy'),
  policiesUnfit: refusal('jwt_policies_unfit', 403, 'key not authorized: could not apply several policies')
} satisfies Record<string, Refusal>

type Scheme = Pick<JwtScheme, 'policy' | 'client' | 'defaultPolicies' | 'scopeClaims' | 'scopePolicies'>

export interface PolicyTools {
  /** A session of this caller is stored already; asked only where the token says nothing. */
  readonly isKept: () => boolean | Promise<boolean>
  /** The policies of a client's key; null: there is none. */
  readonly clientPolicies: (clientId: string) => readonly string[] | null | Promise<readonly string[] | null>
}

/** What `policiesOf` tells: at least one policy, in the order in which they are applied, or why there is none. */
export type PoliciesTold = readonly string[] | Refusal

/**
 * The policy that a claim names (of a list the first), else those of the client's key, and behind them those that the
 * scopes stand for; without any of them the defaults, unless there were scopes and none stands for a policy.
 * A promise only where a key or a session must be looked up in the store.
 */
export function policiesOf(
  claims: Claims,
  scheme: Scheme,
  { isKept, clientPolicies }: PolicyTools
): PoliciesTold | Promise<PoliciesTold> {
  const named = policyNamed(claims, scheme.policy)
  if (named !== null) return withScopes([named], claims, scheme, isKept)
  const clientId = scheme.client === null ? null : claimedName(claims, scheme.client)
  if (clientId === null) return withScopes([], claims, scheme, isKept)
  const found = clientPolicies(clientId)
  return found instanceof Promise
    ? found.then(late => withScopes(late ?? [], claims, scheme, isKept))
    : withScopes(found ?? [], claims, scheme, isKept)
}

/** @param base policies that a claim of the token gave */
function withScopes(
  base: readonly string[],
  claims: Claims,
  { scopeClaims, scopePolicies, defaultPolicies }: Scheme,
  isKept: PolicyTools['isKept']
): PoliciesTold | Promise<PoliciesTold> {
  if (scopePolicies.size > 0) {
    const scopes = scopesOf(claims, scopeClaims)
    if (scopes !== null) {
      const mapped = scopes.flatMap(scope => scopePolicies.get(scope) ?? [])
      const all = [...new Set([...base, ...mapped])]
      return all.length > 0 ? all : policyRefusals.noScopePolicy
    }
  }
  if (base.length > 0) return base
  if (defaultPolicies.length > 0) return defaultPolicies
  const kept = isKept()
  return kept instanceof Promise ? kept.then(nothingSaid) : nothingSaid(kept)
}

function nothingSaid(isKept: boolean): Refusal {
  return isKept ? policyRefusals.neitherScopeNorPolicy : policyRefusals.noPolicyFound
}

function policyNamed(claims: Claims, names: readonly Claim[]): string | null {
  for (const claim of names) {
    const value = claimAt(claims, claim)
    const first: unknown = Array.isArray(value) ? value[0] : value
    if (typeof first === 'string' && first !== '') return first
  }
  return null
}

/**
 * Those of the first claim that is there and not empty: a text with spaces, or a list of texts; null: there is none. A claim
 * of another shape is there, but says no scope.
 */
function scopesOf(claims: Claims, names: readonly Claim[]): readonly string[] | null {
  for (const claim of names) {
    const value = claimAt(claims, claim)
    if (value === undefined || value === null) continue
    const parts: readonly unknown[] =
      typeof value === 'string' ? value.split(/\s+/) : Array.isArray(value) ? value : [0]
    const said = parts.filter(part => part !== '')
    if (said.length > 0) return said.filter(part => typeof part === 'string')
  }
  return null
}

/**
 * The policies of a client: those of the key whose custom id is the client's id. A key that is switched off, expired or
 * gone gives none.
 */
export function clientPolicies(
  keys: Pick<Keys, 'find'>,
  org: string,
  clock: Pick<Clock, 'now'>
): PolicyTools['clientPolicies'] {
  const policiesOfKey = (clientId: string, session: Session | null): readonly string[] | null => {
    // What is found by its token, or was made of a caller's token, is no client.
    if (session === null || session.hash !== customId(org, clientId) || session.proof === 'identity') return null
    if (session.inactive || clock.now() >= Math.min(session.expiresMs, session.goneMs)) return null
    return session.key.apply_policies ?? null
  }
  return clientId => {
    const found = keys.find(org, clientId)
    return found instanceof Promise ? found.then(late => policiesOfKey(clientId, late)) : policiesOfKey(clientId, found)
  }
}
