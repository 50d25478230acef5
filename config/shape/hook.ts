import Type, { type Static } from 'typebox'
import { type Fault, pointer } from '../validate.ts'
import { TOKEN } from './api.ts'

const strict = { additionalProperties: false } as const
const Text = (maxLength: number, description: string) => Type.Optional(Type.String({ maxLength, description }))
const Timeout = Type.Optional(
  Type.Integer({
    minimum: 0,
    maximum: Number.MAX_SAFE_INTEGER,
    unit: 'seconds',
    description: 'The same event is not told again for so long; 0: it is told every time'
  })
)

/** What may call somebody else's server when an event comes (semantics §2.8). What a shape cannot say: `hookFaults`. */
export const Hook = Type.Object(
  {
    api_model: Type.Optional(Type.Union([Type.Record(Type.String(), Type.Unknown()), Type.Null()])),
    event_timeout: Timeout,
    header_map: Type.Optional(
      Type.Union([
        Type.Record(Type.String({ maxLength: 256 }), Type.String({ maxLength: 8192 }), { maxProperties: 100 }),
        Type.Null()
      ])
    ),
    id: Text(256, 'Database id; read only'),
    method: Text(16, 'GET, POST, PUT, PATCH or DELETE'),
    name: Text(1024, 'For people'),
    org_id: Text(256, 'Organisation'),
    target_path: Text(2048, 'Absolute http or https URL'),
    template_path: Text(1024, 'Template of the body; none: the default one'),
    webhook_id: Text(256, 'Custom id, unique in the organisation')
  },
  strict
)
export type Hook = Static<typeof Hook>

/** How a policy names a webhook for one event (semantics §1.2). */
export const HookReference = Type.Object(
  {
    event_name: Type.String({ minLength: 1, maxLength: 128, description: 'e.g. QuotaExceeded' }),
    event_timeout: Timeout,
    hook: Hook
  },
  strict
)
export type HookReference = Static<typeof HookReference>

const METHODS = ['GET', 'POST', 'PUT', 'PATCH', 'DELETE']
const name = new RegExp(TOKEN)
const value = /^[\t\x20-\x7e\x80-\xff]*$/
/** Headers that frame a message: who sends it writes them. */
const FRAMING =
  /^(host|content-length|transfer-encoding|connection|keep-alive|te|trailer|upgrade|proxy-connection|expect)$/i
const CONTROL = /[\x00-\x1f\x7f]/

/**
 * Faults of a webhook that has its shape; members that are absent have none.
 * @param path where it stands
 */
export function hookFaults(
  { method, target_path, template_path, webhook_id, header_map }: Hook,
  path: string
): Fault[] {
  const faults: Fault[] = []
  const fault = (at: string, message: string) => faults.push({ path: `${path}/${at}`, message })
  if (method !== undefined && !METHODS.includes(method)) fault('method', `must be one of ${METHODS.join(', ')}`)
  if (target_path !== undefined && !isTarget(target_path))
    fault('target_path', 'must be an absolute http or https URL without a user or password')
  if (template_path !== undefined && (CONTROL.test(template_path) || template_path.split(/[\\/]/).includes('..')))
    fault('template_path', 'must be a path without .. and control characters')
  if (webhook_id !== undefined && CONTROL.test(webhook_id)) fault('webhook_id', 'must not contain control characters')
  for (const [header, text] of Object.entries(header_map ?? {})) {
    const at = `header_map/${pointer(header)}`
    if (!name.test(header)) fault(at, 'is no possible header name')
    else if (FRAMING.test(header)) fault(at, 'is a header that only the sender itself writes')
    else if (!value.test(text)) fault(at, 'is no possible header value')
  }
  return faults
}

function isTarget(text: string): boolean {
  if (!/^https?:\/\/[^/]/i.test(text) || CONTROL.test(text) || text !== text.trim()) return false
  try {
    const { username, password, hostname } = new URL(text)
    return username === '' && password === '' && hostname !== ''
  } catch {
    return false
  }
}
