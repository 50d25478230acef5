/**
 * Finds equal items of an array (JSON Schema `uniqueItems`) in one pass: equal values get the same number, and a value
 * is known by the numbers of what it holds. Comparing each pair would take hours for a long list.
 */

/** Numbers of the values that were seen, for one input. */
export class Values {
  readonly #numbers = new Map<string, number>()
  readonly #known = new WeakMap<object, number>()

  /** Index of the first item that an earlier one equals; -1: all differ. */
  duplicate(items: readonly unknown[]): number {
    const seen = new Set<number>()
    for (const [i, item] of items.entries()) {
      const number = this.#number(item)
      if (seen.has(number)) return i
      seen.add(number)
    }
    return -1
  }

  #number(value: unknown): number {
    if (typeof value !== 'object' || value === null) return this.#of(`${typeof value} ${value}`)
    const known = this.#known.get(value)
    if (known !== undefined) return known
    const name = Array.isArray(value)
      ? `[${value.map(item => this.#number(item)).join()}]`
      : JSON.stringify(
          Object.keys(value)
            .sort()
            .map(key => [key, this.#number((value as Record<string, unknown>)[key])])
        )
    const number = this.#of(`object ${name}`)
    this.#known.set(value, number)
    return number
  }

  #of(name: string): number {
    const known = this.#numbers.get(name)
    if (known !== undefined) return known
    const number = this.#numbers.size
    this.#numbers.set(name, number)
    return number
  }
}
