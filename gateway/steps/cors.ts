import { answer } from '../answer.ts'
import type { Cors } from '../api.ts'
import { ANSWERED, type Exchange, LAST } from '../exchange.ts'
import { names } from '../proxy/headers.ts'
import type { Step } from './step.ts'

const SIMPLE_METHODS = ['GET', 'POST', 'HEAD']
const SIMPLE_HEADERS = ['Origin', 'Accept', 'Content-Type', 'X-Requested-With']

/**
 * `middleware.global.cors` (Fetch standard, CORS protocol). OPTIONS is answered here unless it is passed through, and
 * then it goes to the upstream past every other step and its answer comes back as it is.
 */
export const cors: Step = {
  name: 'cors',
  make(api, { log }) {
    const given = api.cors
    if (given === null) return null
    const allows = origins(given)
    const methods = (given.allowedMethods.length === 0 ? SIMPLE_METHODS : given.allowedMethods).map(method =>
      method.toUpperCase()
    )
    const named = given.allowedHeaders.length === 0 ? SIMPLE_HEADERS : given.allowedHeaders
    // What a client of a stream says where it goes on with.
    const headers = api.streams === null ? named : [...named, 'Last-Event-ID']
    const lowerHeaders = new Set(headers.map(name => name.toLowerCase()))
    const anyHeader = lowerHeaders.has('*')
    const anyMethod = methods.includes('*')
    const anyOrigin =
      !given.allowCredentials && (given.allowedOrigins.length === 0 || given.allowedOrigins.includes('*'))
    const exposed = given.exposedHeaders.join(', ')

    function allowOrigin(x: Exchange, pairs: string[]): boolean {
      const origin = x.header('origin')
      if (origin === null || !allows(origin)) {
        if (given!.debug && origin !== null) log.info('cors: origin refused', { api_id: api.id, origin })
        return false
      }
      pairs.push('Access-Control-Allow-Origin', anyOrigin ? '*' : origin)
      if (given!.allowCredentials) pairs.push('Access-Control-Allow-Credentials', 'true')
      return true
    }

    /** The pairs of the answer to OPTIONS; a preflight that is refused gets nothing that allows anything. */
    function preflight(x: Exchange): string[] {
      const pairs = [
        'Vary',
        `${anyOrigin ? '' : 'Origin, '}Access-Control-Request-Method, Access-Control-Request-Headers`
      ]
      const asked = x.header('access-control-request-method')
      const askedHeaders = x.header('access-control-request-headers')
      const fits =
        asked !== null &&
        (anyMethod || methods.includes(asked.toUpperCase())) &&
        (askedHeaders === null || anyHeader || allAllowed(askedHeaders))
      if (!fits) {
        if (given!.debug)
          log.info('cors: preflight refused', { api_id: api.id, method: asked ?? '', headers: askedHeaders ?? '' })
        return pairs
      }
      if (!allowOrigin(x, pairs)) return pairs
      pairs.push('Access-Control-Allow-Methods', anyMethod ? asked : methods.join(', '))
      if (askedHeaders !== null)
        pairs.push('Access-Control-Allow-Headers', anyHeader ? askedHeaders : headers.join(', '))
      if (given!.maxAge > 0) pairs.push('Access-Control-Max-Age', String(given!.maxAge))
      return pairs
    }

    function allAllowed(asked: string): boolean {
      return asked.split(',').every(each => {
        const name = each.trim().toLowerCase()
        return name === '' || lowerHeaders.has(name)
      })
    }

    return {
      run(x) {
        if (x.method !== 'OPTIONS') return undefined
        if (given.optionsPassthrough) return LAST
        answer(x, 204, preflight(x), null)
        return ANSWERED
      },
      head(x, _status, pairs) {
        if (x.method === 'OPTIONS') return
        drop(pairs, 'access-control-allow-origin')
        drop(pairs, 'access-control-allow-credentials')
        if (!anyOrigin) vary(pairs, 'Origin')
        if (allowOrigin(x, pairs) && exposed !== '') pairs.push('Access-Control-Expose-Headers', exposed)
      }
    }
  }
}

/** `*`, whole origins, or origins with one `*` in them. */
function origins(given: Cors): (origin: string) => boolean {
  const allowed = given.allowedOrigins.map(origin => origin.toLowerCase())
  if (allowed.length === 0 || allowed.includes('*')) return () => true
  const whole = new Set(allowed)
  const parted = allowed.filter(origin => origin.includes('*')).map(origin => origin.split('*') as [string, string])
  return origin => {
    const lower = origin.toLowerCase()
    return (
      whole.has(lower) ||
      parted.some(
        ([start, end]) => lower.length >= start.length + end.length && lower.startsWith(start) && lower.endsWith(end)
      )
    )
  }
}

function vary(pairs: string[], name: string): void {
  for (let i = 0; i < pairs.length; i += 2) {
    if (pairs[i]!.toLowerCase() !== 'vary') continue
    if (!names(pairs[i + 1]!.toLowerCase(), name.toLowerCase())) pairs[i + 1] += `, ${name}`
    return
  }
  pairs.push('Vary', name)
}

function drop(pairs: string[], lower: string): void {
  for (let i = pairs.length - 2; i >= 0; i -= 2) if (pairs[i]!.toLowerCase() === lower) pairs.splice(i, 2)
}
