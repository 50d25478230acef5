import { createHash, timingSafeEqual } from 'node:crypto'
import type { IncomingMessage } from 'node:http'
import type { Door } from './endpoint.ts'

/** Answers of one surface in its own form. */
export interface Surface {
  /** null: come in. Otherwise what stands in the way. */
  enter(req: IncomingMessage): { status: number; message: string } | null
  error(message: string, more: Record<string, unknown>): unknown
}

/** The doors by name; each knows its credential and the form of its errors (`outside.md` §3). */
export function doors(secret: string): Record<Door, Surface> {
  const known = digest(secret)
  return {
    gateway: {
      enter(req) {
        const given = req.headers['x-svc-authorization']
        if (typeof given === 'string' && timingSafeEqual(digest(given), known)) return null
        return { status: 403, message: 'Attempted administrative access with invalid or missing key!' }
      },
      error: (message, more) => ({ status: 'error', message, ...more })
    }
  }
}

// Equal lengths for timingSafeEqual, whatever was sent.
function digest(text: string): Buffer {
  return createHash('sha256').update(text).digest()
}
