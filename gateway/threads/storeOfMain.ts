import { parseExact } from '../../config/exactJson.ts'
import type { Document, Kind, Page, Store, Walk, Write } from '../store/store.ts'
import type { Calls } from './calls.ts'
import type { Question, StoreQuestion, Task } from './words.ts'

/**
 * The store as a thread sees it: the main thread reads and writes for it. Documents travel as JSON: what holds their exact
 * numbers cannot be posted.
 */
export function storeOfMain(main: Pick<Calls<Question, Task>, 'ask'>): Store {
  async function read<T>(question: StoreQuestion): Promise<T> {
    return parseExact(await main.ask<string>(question)) as T
  }
  return {
    get: <T>(kind: Kind, id: string) => read<Document<T> | null>({ is: 'get', kind, id }),
    list: <T>(kind: Kind, query: Parameters<Store['list']>[1]) => read<Page<T>>({ is: 'list', kind, query }),
    async *each<T>(kind: Kind, query: Walk) {
      const walk = await main.ask<number>({ is: 'walk', kind, query })
      let isOver = false
      try {
        for (;;) {
          const slice = await read<readonly Document<T>[] | null>({ is: 'next', walk })
          isOver = slice === null
          if (slice === null) return
          yield slice
        }
      } finally {
        if (!isOver) await main.ask({ is: 'leave', walk })
      }
    },
    since: (sequence, kinds) => main.ask({ is: 'since', sequence, kinds }),
    sequence: () => main.ask({ is: 'sequence' }),
    commit: writes => main.ask({ is: 'commit', writes: JSON.stringify(writes) }),
    async close() {}
  }
}

/** The main thread's end: answers one thread. */
export function storeForThread(store: Store): { answer(question: StoreQuestion): unknown; close(): void } {
  const walks = new Map<number, AsyncIterator<readonly unknown[]>>()
  let count = 0
  return {
    answer(question) {
      switch (question.is) {
        case 'get':
          return json(store.get(question.kind, question.id))
        case 'list':
          return json(store.list(question.kind, question.query))
        case 'since':
          return store.since(question.sequence, question.kinds)
        case 'sequence':
          return store.sequence()
        case 'commit':
          return store.commit(parseExact(question.writes) as Write[])
        case 'walk':
          walks.set(++count, store.each(question.kind, question.query)[Symbol.asyncIterator]())
          return count
        case 'next':
          return json(next(question.walk))
        case 'leave':
          return leave(question.walk)
      }
    },
    close() {
      for (const walk of walks.keys()) leave(walk)
    }
  }

  async function json(value: unknown): Promise<string> {
    return JSON.stringify(await value)
  }

  async function next(walk: number): Promise<readonly unknown[] | null> {
    const { done, value } = await walks.get(walk)!.next()
    if (done !== true) return value
    walks.delete(walk)
    return null
  }

  function leave(walk: number): void {
    void walks.get(walk)?.return?.()
    walks.delete(walk)
  }
}
