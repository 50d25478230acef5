import { setImmediate as nextTurn } from 'node:timers/promises'
import type { Count, Kind, Revision, Write } from './store.ts'

/** A `Write` with its body as JSON text, or null to delete. */
export interface TextWrite {
  readonly kind: Kind
  readonly id: string
  readonly org: string
  readonly body: string | null
  readonly expect: Revision | undefined
  /** The body's numbers where it only raises a count. */
  readonly raise: Count | undefined
}

/** So long texts are made before requests get their turn. */
const turnMs = 2

/** @throws TypeError of a body that is no JSON */
export async function textWrites(writes: readonly Write[]): Promise<TextWrite[]> {
  const texts: TextWrite[] = []
  let until = performance.now() + turnMs
  for (const write of writes) {
    texts.push(textWrite(write))
    if (performance.now() < until) continue
    await nextTurn()
    until = performance.now() + turnMs
  }
  return texts
}

function textWrite(write: Write): TextWrite {
  const { kind, id, expect } = write
  if (write.body === null) return { kind, id, org: '', body: null, expect, raise: undefined }
  const body = JSON.stringify(write.body) as string | undefined
  if (body === undefined) throw new TypeError(`the body of ${kind} ${id} is no JSON`)
  return { kind, id, org: write.org, body, expect, raise: write.raise === true ? write.body : undefined }
}
