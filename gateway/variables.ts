import type { Exchange } from './exchange.ts'

/** A text with variables, read once and filled in per request. */
export type Text = (x: Exchange) => string

// A result may land in a header: no line ends, no controls, and not without a bound.
const UNFIT = /[^\t\x20-\x7e\x80-\xff]/g
const LONGEST = 8192

/**
 * Reads a text that may hold `$svc_meta.NAME` (the key's `meta_data`) and `$svc_context.NAME` (`path`, `remote_addr`,
 * `headers_Name` with `_` for `-`). What is absent becomes empty.
 */
export function text(template: string): Text {
  const parts = template.split(/(\$svc_(?:meta|context)\.[\w-]+)/)
  if (parts.length === 1) return () => template
  const readers = parts.map(part => reader(part))
  return x =>
    readers
      .map(read => read(x))
      .join('')
      .replace(UNFIT, '')
      .slice(0, LONGEST)
}

function reader(part: string): Text {
  if (part.startsWith('$svc_meta.')) {
    const name = part.slice('$svc_meta.'.length)
    return x => {
      const meta = x.key?.key.meta_data
      if (typeof meta !== 'object' || meta === null || !Object.hasOwn(meta, name)) return ''
      const value: unknown = (meta as Record<string, unknown>)[name]
      return typeof value === 'object' ? JSON.stringify(value) : String(value)
    }
  }
  if (!part.startsWith('$svc_context.')) return () => part
  const name = part.slice('$svc_context.'.length)
  if (name === 'path') return x => x.path
  if (name === 'remote_addr') return x => x.client
  if (name.startsWith('headers_')) {
    const header = name.slice('headers_'.length).replaceAll('_', '-').toLowerCase()
    return x => x.header(header) ?? ''
  }
  return () => ''
}
