import { serializeInnerList, serializeItem } from 'structured-headers'
import type { Claim, Component } from './claim.ts'
import { componentValue } from './component.ts'
import type { Message } from './message.ts'
import { itemOf } from './structured.ts'

/** The bytes that a signature signs (RFC 9421 §2.5); null: a component has no value here, or stands twice. */
export function signatureBase(message: Message, { components, input }: Claim): Buffer | null {
  const lines = new Map<string, string>()
  for (const component of components) {
    const identifier = serializeItem(component.item)
    const value = componentValue(message, component)
    if (value === null || lines.has(identifier)) return null
    lines.set(identifier, value)
  }
  const text = [...lines, ['"@signature-params"', serializeInnerList(input)]].map(pair => pair.join(': ')).join('\n')
  return Buffer.from(text, 'latin1')
}

/**
 * A component that must be covered, as documents write it: a name, and behind it parameters. Null: it is no identifier; no
 * signature covers it, so such an API is shut.
 */
export function requirement(text: string): string | null {
  const semicolon = text.indexOf(';')
  const end = semicolon < 0 ? text.length : semicolon
  return itemOf(`"${text.slice(0, end)}"${text.slice(end)}`)
}

/** A field is also covered whole where it is covered strictly written or as bytes. */
export function covers({ components }: Claim, required: readonly (string | null)[]): boolean {
  const covered = new Set(components.map(identifierOf))
  return required.every(identifier => identifier !== null && covered.has(identifier))
}

function identifierOf({ name, params, item }: Component): string {
  return params.has('bs') || params.has('sf') ? `"${name}"` : serializeItem(item)
}
