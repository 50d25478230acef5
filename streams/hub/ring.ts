/** What can stand in a ring, in one at a time; both null: it stands in none. */
export interface RingMember<T> {
  ringNext: T | null
  ringPrevious: T | null
}

/** Whose turn it is, in rotation. Coming, going and moving on cost the same however many there are. */
export class Ring<T extends RingMember<T>> {
  /** Whose turn it is. */
  current: T | null = null
  size = 0

  has(member: T): boolean {
    return member.ringNext !== null
  }

  /** It comes last: all others have their turn before. */
  add(member: T): void {
    if (member.ringNext !== null) return
    this.size++
    const { current } = this
    if (current === null) {
      member.ringNext = member
      member.ringPrevious = member
      this.current = member
      return
    }
    const last = current.ringPrevious!
    member.ringPrevious = last
    member.ringNext = current
    last.ringNext = member
    current.ringPrevious = member
  }

  /** It comes right before one that stands here: first, if that is whose turn it is. */
  insert(member: T, next: T): void {
    if (member.ringNext !== null) return
    this.size++
    const previous = next.ringPrevious!
    member.ringPrevious = previous
    member.ringNext = next
    previous.ringNext = member
    next.ringPrevious = member
    if (next === this.current) this.current = member
  }

  remove(member: T): void {
    const next = member.ringNext
    if (next === null) return
    const previous = member.ringPrevious!
    previous.ringNext = next
    next.ringPrevious = previous
    if (this.current === member) this.current = next === member ? null : next
    member.ringNext = null
    member.ringPrevious = null
    this.size--
  }

  advance(): void {
    if (this.current !== null) this.current = this.current.ringNext
  }
}
