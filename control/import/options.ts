import type { Report } from './report.ts'

export const MODES = ['legacy', 'compliant'] as const
export type Mode = (typeof MODES)[number]

/** What the query of an import asks for (semantics §3.9). */
export interface Options {
  /** null: not given. The options from `authentication` on act only where it is given (outside.md §5). */
  readonly listenPath: string | null
  readonly upstreamURL: string | null
  readonly customDomain: string | null
  readonly apiID: string | null
  readonly authentication: boolean | null
  /** How `security` is read; null: not given. */
  readonly mode: Mode | null
  readonly allowList: boolean | null
  readonly validateRequest: boolean | null
  readonly mockResponse: boolean | null
}

export const SWITCHES = ['authentication', 'allowList', 'validateRequest', 'mockResponse'] as const
export const TEXTS = ['listenPath', 'upstreamURL', 'customDomain', 'apiID'] as const
const MODE = 'securityProcessingMode'
/** All query parameters of an import that are read here. */
export const OPTION_NAMES = [...TEXTS, ...SWITCHES, MODE] as const

// Go's strconv.ParseBool.
const TRUE = new Set(['1', 't', 'T', 'TRUE', 'true', 'True'])
const FALSE = new Set(['0', 'f', 'F', 'FALSE', 'false', 'False'])
const NOT_BOOLEAN = 'is neither true nor false, so it counts as not given'
const NEEDS_LISTEN_PATH = 'takes effect only together with listenPath'

export function options(query: Readonly<Record<string, string | undefined>>, told: Report): Options {
  const text = (name: (typeof TEXTS)[number]) => query[name] || null
  const ignored = (name: string, message: string) => told.made('', name, 'ignored', message)
  const listenPath = text('listenPath')
  const flag = (name: (typeof SWITCHES)[number]) => {
    const given = query[name]
    if (given === undefined || given === '') return null
    // Compliant is a way of authentication.
    const value = TRUE.has(given) || (name === 'authentication' && given === 'compliant')
    if (!value && !FALSE.has(given)) ignored(name, NOT_BOOLEAN)
    else if (listenPath === null) ignored(name, NEEDS_LISTEN_PATH)
    else return value
    return null
  }
  const given = query[MODE] ?? ''
  const named = MODES.find(known => known === given) ?? null
  if (given !== '' && named === null) ignored(MODE, 'is neither legacy nor compliant, so it counts as not given')
  else if (given !== '' && listenPath === null) ignored(MODE, NEEDS_LISTEN_PATH)
  const mode = named ?? (query.authentication === 'compliant' ? 'compliant' : null)
  return {
    listenPath,
    upstreamURL: text('upstreamURL'),
    customDomain: text('customDomain'),
    apiID: text('apiID'),
    authentication: flag('authentication'),
    mode: listenPath === null ? null : mode,
    allowList: flag('allowList'),
    validateRequest: flag('validateRequest'),
    mockResponse: flag('mockResponse')
  }
}
