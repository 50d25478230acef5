import { Unreadable } from './der.ts'

/** One block of RFC 7468, or of its predecessors with headers. */
export interface PemBlock {
  readonly type: string
  /** Lines of the form `Name: value`, '' for none. */
  readonly headers: string
  readonly bytes: Buffer
}

const MOST_BLOCKS = 50
const BEGIN = /^-----BEGIN ([A-Z0-9][A-Z0-9 ]{0,60})-----$/
const BASE64 = /^[A-Za-z0-9+/]*={0,2}$/

/** The blocks of a text, one line after another; what stands between them is for people. @throws Unreadable */
export function pemBlocks(text: string): PemBlock[] {
  const blocks: PemBlock[] = []
  let open: { readonly type: string; readonly headers: string[]; readonly lines: string[] } | null = null
  for (const raw of text.split('\n')) {
    const line = raw.trimEnd()
    if (open === null) {
      const type = line.length > 200 ? undefined : BEGIN.exec(line)?.[1]
      if (type !== undefined) open = { type, headers: [], lines: [] }
    } else if (line === `-----END ${open.type}-----`) {
      const bytes = Buffer.from(open.lines.join(''), 'base64')
      if (bytes.length === 0) throw new Unreadable('an empty block')
      blocks.push({ type: open.type, headers: open.headers.join('\n'), bytes })
      if (blocks.length > MOST_BLOCKS) throw new Unreadable('too many blocks')
      open = null
    } else if (open.lines.length === 0 && /^[A-Za-z0-9-]{1,40}: ?\S/.test(line)) open.headers.push(line)
    else if (!BASE64.test(line)) throw new Unreadable('no base64')
    else if (line !== '') open.lines.push(line)
  }
  if (open !== null) throw new Unreadable('a block without its end')
  return blocks
}
