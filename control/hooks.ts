import type { Hook } from '../config/shape/hook.ts'
import { MASK } from './mask.ts'

/** Body of a stored `hook` document; its id is `id`. */
export type HookRecord = Required<Hook>

/** A webhook for the audit: any of its headers may carry a secret. */
export function maskedHook<H extends Hook>(hook: H): H {
  const header_map = Object.fromEntries(Object.keys(hook.header_map ?? {}).map(name => [name, MASK]))
  return { ...hook, header_map }
}
