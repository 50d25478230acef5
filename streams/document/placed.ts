import type { Connector } from '../connector.ts'

/** One connector of a stream, and where its options stand below the stream. */
export interface Placed {
  readonly place: string
  readonly kind: string
  readonly options: unknown
}

/** A connector, or those below it where it is a `broker`, in the order of the document. */
export function placed(connector: Connector, side: 'input' | 'output', above = `/${side}`): readonly Placed[] {
  const { kind, options, children } = connector
  const place = `${above}/${kind}`
  if (kind !== 'broker') return [{ place, kind, options }]
  return children.flatMap((child, i) => placed(child, side, `${place}/${side}s/${i}`))
}
