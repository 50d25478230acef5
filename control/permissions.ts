/** What a call wants: the facts' intents (semantics §2.8). */
export type Intent = 'read' | 'write' | 'delete'

/** Levels of a permission, and what each allows. `deny` binds administrators too. */
export const levels = {
  read: ['read'],
  write: ['read', 'write', 'delete'],
  admin: ['read', 'write', 'delete'],
  deny: []
} as const satisfies Record<string, readonly Intent[]>
export type Level = keyof typeof levels

/** A person's permissions by name; levels as they were given. */
export type Permissions = Readonly<Record<string, string>>

export interface Rule {
  readonly permission: string
  /** Matches whole paths of the management interface. */
  readonly rx: RegExp
}

/** Which permission a path needs: the first rule that matches decides. `GET /api/schema/permissions` shows it. */
export const rules: readonly Rule[] = [
  { permission: 'keys', rx: /^\/api\/apis\/keys(\/.*)?$/ },
  { permission: 'keys', rx: /^\/api\/apis\/[^/]+\/keys(\/.*)?$/ },
  { permission: 'keys', rx: /^\/api\/keys(\/.*)?$/ },
  { permission: 'apis', rx: /^\/api\/apis(\/.*)?$/ },
  { permission: 'apis', rx: /^\/api\/cache(\/.*)?$/ },
  { permission: 'policies', rx: /^\/api\/portal\/policies(\/.*)?$/ },
  { permission: 'api_assets', rx: /^\/api\/assets(\/.*)?$/ },
  { permission: 'users', rx: /^\/api\/users(\/.*)?$/ },
  { permission: 'user_groups', rx: /^\/api\/usergroups(\/.*)?$/ },
  { permission: 'certs', rx: /^(\/api)?\/certs(\/.*)?$/ },
  { permission: 'certs', rx: /^\/api\/org\/notifications$/ },
  { permission: 'hooks', rx: /^\/api\/hooks(\/.*)?$/ },
  { permission: 'audit_logs', rx: /^\/api\/audit-logs(\/.*)?$/ },
  { permission: 'portal', rx: /^\/portal-api(\/.*)?$/ },
  { permission: 'system', rx: /^\/api\/(schema|system|org)(\/.*)?$/ }
]

/** The permission that a path needs; null: no rule knows it. */
export function permissionOf(path: string): string | null {
  return rules.find(({ rx }) => rx.test(path))?.permission ?? null
}

export function isAdmin(permissions: Permissions): boolean {
  return levelOf(permissions, 'IsAdmin') === 'admin'
}

/** The level of a permission, as it was given; undefined: none. */
export function levelOf(permissions: Permissions, permission: string): string | undefined {
  return Object.hasOwn(permissions, permission) ? permissions[permission] : undefined
}

const strength: Readonly<Record<string, number>> = { deny: 0, read: 1, write: 2, admin: 3 }

/** How far permissions reach: an administrator's as far as nothing is denied. */
function reach(permissions: Permissions, permission: string): number {
  const level = levelOf(permissions, permission) ?? ''
  if (level !== 'deny' && isAdmin(permissions)) return 3
  return strength[level] ?? 0
}

/** Whether `own` reaches as far as `other` everywhere: nobody may give, or take over, what it has not. */
export function covers(own: Permissions, other: Permissions): boolean {
  if (isAdmin(other) && !isAdmin(own)) return false
  return [...Object.keys(own), ...Object.keys(other)].every(name => reach(other, name) <= reach(own, name))
}

/** Whether a level allows an intent; unknown levels allow nothing. */
export function allows(level: string | undefined, intent: Intent): boolean {
  return (
    level !== undefined &&
    Object.hasOwn(levels, level) &&
    (levels[level as Level] as readonly Intent[]).includes(intent)
  )
}

/**
 * Why a person may not do this (semantics §1.0, §2.8), or null.
 * @param place the endpoint's path with its parameters unfilled: an id that reads like a part of the path leads nowhere else
 */
export function denial(permissions: Permissions, path: string, intent: Intent, place = path): string | null {
  const permission = permissionOf(place)
  if (permission === null)
    return `access denied: This action is unknown. You do not have permission to access '${path}'.`
  const level = levelOf(permissions, permission)
  const forbidden = `access denied: You do not have permission to access  ${path}`
  if (level === 'deny') return forbidden
  if (isAdmin(permissions) || allows(level, intent)) return null
  return allows(level, 'read')
    ? `access denied: You do not have permission to carry out '${intent}' operation.`
    : forbidden
}
