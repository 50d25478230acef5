import { type Claims, claimNamed, claimText } from './claims.ts'
import { isObject } from './merge.ts'

/** What a pattern may ask of a request; an `Exchange` is one. */
export interface Asked {
  /** First value of a header, by its lower-case name. */
  header(name: string): string | null
  readonly path: string
  readonly client: string
  /** Of a verified token. */
  readonly claims?: Claims | null
  /** What the caller has shown. */
  readonly credential?: string | null
}

/** The text under which a request is counted; '' : under its key, as without a pattern. */
export type Pattern = (request: Asked) => string

/** Dots lead into nested claims. */
const VARIABLE = /(\$svc_(?:context\.jwt_claims_\w+(?:\.\w+)*|(?:meta|context)\.\w+))/

/**
 * `meta_data.rate_limit_pattern` (semantics §5.2): a template with `$svc_meta.<name>`, `$svc_context.headers_<Name>`
 * (`_` stands for `-`), `$svc_context.path`, `$svc_context.remote_addr`, `$svc_context.jwt_claims_<name>` and
 * `$svc_context.token`; anything else of `$svc_context` is empty.
 * When all its variables are empty, so is the result: the text between them tells nobody apart.
 * Null: the key has no pattern.
 */
export function patternOf(metaData: unknown): Pattern | null {
  if (!isObject(metaData) || !Object.hasOwn(metaData, 'rate_limit_pattern')) return null
  const template = metaData.rate_limit_pattern
  if (typeof template !== 'string' || template === '') return null
  const parts = template.split(VARIABLE).map(text => partOf(text, metaData))
  const variables = parts.some(part => typeof part !== 'string')
  return request => {
    let text = ''
    let told = !variables
    for (const part of parts) {
      if (typeof part === 'string') text += part
      else {
        const value = part(request)
        if (value !== '') told = true
        text += value
      }
    }
    return told ? text : ''
  }
}

function partOf(text: string, metaData: Record<string, unknown>): string | Pattern {
  const [, space, name = ''] = /^\$svc_(meta|context)\.([\w.]+)$/.exec(text) ?? []
  if (space === undefined) return text
  if (space === 'meta') {
    const value = Object.hasOwn(metaData, name) ? metaData[name] : ''
    const fixed =
      typeof value === 'string' || typeof value === 'number' || typeof value === 'boolean' ? String(value) : ''
    return () => fixed
  }
  if (name === 'path') return request => request.path
  if (name === 'remote_addr') return request => request.client
  if (name === 'token') return request => request.credential ?? ''
  if (name.startsWith('jwt_claims_')) {
    const claim = claimNamed(name.slice('jwt_claims_'.length))
    return request => claimText(request.claims ?? null, claim)
  }
  if (!name.startsWith('headers_')) return () => ''
  const header = name.slice('headers_'.length).replaceAll('_', '-').toLowerCase()
  return request => request.header(header) ?? ''
}
