/** In their order; a name may come several times. */
export type MessageHeaders = readonly (readonly [name: string, value: Buffer])[]

export interface Message {
  /** Null: none. */
  readonly key: Buffer | null
  /** Null: a tombstone. */
  readonly value: Buffer | null
  readonly headers: MessageHeaders
}

/** A message as a broker keeps it. */
export interface Arrived extends Message {
  readonly topic: string
  readonly partition: number
  /** Counts the records of a partition, from 0. */
  readonly offset: number
  /** Milliseconds since the epoch. */
  readonly timestamp: number
}

/** Where a message went. */
export interface Placed {
  readonly topic: string
  readonly partition: number
  /** -1: the broker did not tell. */
  readonly offset: number
  /** Milliseconds since the epoch. */
  readonly timestamp: number
}

/** Bytes that it takes, some for what stands around it included: what bounds count. */
export function sizeOf({ key, value, headers }: Message): number {
  let size = 64 + (key === null ? 0 : key.length) + (value === null ? 0 : value.length)
  for (let i = 0; i < headers.length; i++) size += headers[i]![0].length + headers[i]![1].length
  return size
}
