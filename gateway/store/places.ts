import type { Document } from './store.ts'

/** A document and its place: places rise in the order of creation. */
export interface Placed {
  readonly place: number
  readonly document: Document
}

const blockSize = 1024

/** Documents in order of creation, in blocks, so that a page is found by adding up block lengths. For `storeMemory`. */
export class Places {
  total = 0
  readonly #blocks: Placed[][] = []

  /** `placed.place` must be above all others. */
  append(placed: Placed): void {
    const last = this.#blocks.at(-1)
    if (last !== undefined && last.length < blockSize) last.push(placed)
    else this.#blocks.push([placed])
    this.total++
  }

  /** Puts it where its place says: when it comes from another organisation. */
  insert(placed: Placed): void {
    const at = this.#blockOf(placed.place)
    const block = this.#blocks[at]
    if (block === undefined) {
      this.append(placed)
      return
    }
    block.splice(indexOf(block, placed.place), 0, placed)
    if (block.length > 2 * blockSize) this.#blocks.splice(at + 1, 0, block.splice(blockSize))
    this.total++
  }

  replace(placed: Placed): void {
    const block = this.#blocks[this.#blockOf(placed.place)]!
    block[indexOf(block, placed.place)] = placed
  }

  remove(place: number): void {
    const at = this.#blockOf(place)
    const block = this.#blocks[at]!
    block.splice(indexOf(block, place), 1)
    if (block.length === 0) this.#blocks.splice(at, 1)
    this.total--
  }

  /** Up to `count` after the first `skip`, oldest first. */
  slice(skip: number, count: number): Placed[] {
    const found: Placed[] = []
    for (const block of this.#blocks) {
      if (found.length >= count) break
      if (skip < block.length) for (const one of block.slice(skip, skip + count - found.length)) found.push(one)
      skip = Math.max(0, skip - block.length)
    }
    return found
  }

  /** Index of the last block that begins at or before `place`; of the first, when none does. */
  #blockOf(place: number): number {
    let low = 0
    let high = this.#blocks.length - 1
    while (low < high) {
      const middle = (low + high + 1) >> 1
      if (this.#blocks[middle]![0]!.place <= place) low = middle
      else high = middle - 1
    }
    return low
  }
}

/** Index of `place`, or where it would stand. */
function indexOf(block: readonly Placed[], place: number): number {
  let low = 0
  let high = block.length
  while (low < high) {
    const middle = (low + high) >> 1
    if (block[middle]!.place < place) low = middle + 1
    else high = middle
  }
  return low
}
