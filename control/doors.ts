import { createHash, timingSafeEqual } from 'node:crypto'
import type { IncomingMessage } from 'node:http'
import { Attempts } from './attempts.ts'
import type { Caller } from './caller.ts'
import { type Door, Refused } from './endpoint.ts'
import type { ControlTools } from './tools.ts'
import type { Person } from './users.ts'

/** Answers of one surface in its own form. */
export interface Surface {
  /** @throws Refused when the credential is missing or wrong; Unavailable */
  enter(req: IncomingMessage, address: string): Caller | Promise<Caller>
  error(message: string, more: Record<string, unknown>): unknown
}

const NOT_AUTHORISED = 'Not authorised'

/** The doors by name; each knows its credential and the form of its errors (`outside.md` §3). */
export function doors({
  settings,
  clock,
  people
}: Pick<ControlTools, 'settings' | 'clock' | 'people'>): Record<Door, Surface> {
  const { gateway, management } = settings
  const gatewaySecret = digest(gateway.secret)
  const adminSecret = digest(management.admin_secret || gateway.secret)
  const attempts = new Attempts(management.failed_credentials_per_minute, clock)

  /** A missing credential guesses nothing, so only wrong ones count. */
  const no = (given: string, address: string): Refused => {
    const wait = given === '' ? 0 : attempts.wrong(address)
    if (wait === 0) return new Refused(401, NOT_AUTHORISED)
    return new Refused(429, `Too many wrong credentials: wait ${wait} s`, { headers: { 'Retry-After': String(wait) } })
  }

  const person = async (req: IncomingMessage, address: string): Promise<Caller> => {
    const given = accessKey(single(req, 'authorization'))
    const user: Person | null = given === '' ? null : await people.byAccessKey(given)
    if (user === null) throw no(given, address)
    if (!user.active) throw new Refused(403, 'access denied: User is not active')
    return { name: user.email, user, org: user.org, admin: user.admin, address }
  }

  return {
    gateway: {
      enter(req, address) {
        if (timingSafeEqual(digest(single(req, 'x-svc-authorization')), gatewaySecret))
          return { name: 'gateway secret', user: null, org: null, admin: true, address }
        throw new Refused(403, 'Attempted administrative access with invalid or missing key!')
      },
      error: (message, more) => ({ status: 'error', message, ...more })
    },
    management: { enter: person, error: envelope },
    admin: {
      enter(req, address) {
        const given = single(req, 'admin-auth')
        if (timingSafeEqual(digest(given), adminSecret))
          return { name: 'admin secret', user: null, org: null, admin: true, address }
        throw no(given, address)
      },
      error: envelope
    },
    portal: { enter: person, error: (message, more) => ({ errors: [message], ...more }) },
    open: {
      enter: (_req, address) => ({ name: '', user: null, org: null, admin: false, address }),
      error: envelope
    }
  }
}

/** The surface that a path belongs to, where no endpoint is known. */
export function doorOf(path: string): Door {
  if (/^\/svc(\/|$)/.test(path)) return 'gateway'
  if (/^\/admin(\/|$)/.test(path)) return 'admin'
  if (/^\/portal-api(\/|$)/.test(path)) return 'portal'
  return /^\/(api|certs)(\/|$)/.test(path) ? 'management' : 'open'
}

function envelope(message: string, more: Record<string, unknown>): unknown {
  return { Status: 'Error', Message: message, Meta: null, ...more }
}

/** The value of a header that came once; '' otherwise. */
function single(req: IncomingMessage, name: string): string {
  const values = req.headersDistinct[name]
  return values?.length === 1 ? values[0]! : ''
}

/** `Bearer KEY`, in any case (RFC 9110 §11.1), or the bare key. */
function accessKey(value: string): string {
  return value.replace(/^bearer(?= |$) */i, '').trim()
}

// Equal lengths for timingSafeEqual, whatever was sent.
function digest(text: string): Buffer {
  return createHash('sha256').update(text).digest()
}
