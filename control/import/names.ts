/** Names that are taken. */
export interface Names {
  readonly taken: Set<string>
  /** How often each name was wished for: counting on from there keeps many alike from being tried one by one. */
  readonly wished: Map<string, number>
}

export function namesOf(taken: Iterable<string>): Names {
  return { taken: new Set(taken), wished: new Map() }
}

/** The name, or the name and the first number that make one which nobody has; it is taken then. */
export function unused(name: string, { taken, wished }: Names): string {
  let free = name
  let count = wished.get(name) ?? 1
  while (taken.has(free)) free = `${name}_${++count}`
  wished.set(name, count)
  taken.add(free)
  return free
}
