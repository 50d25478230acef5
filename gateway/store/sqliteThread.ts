import { Worker } from 'node:worker_threads'
import { parseExact } from '../../config/exactJson.ts'
import type { Log } from '../../config/world.ts'
import type { Answer, Ask, Committed, Given } from './sqliteWorker.ts'
import { Conflict, Full, type Sequence, Unavailable } from './store.ts'

/** A call without its number. */
type Call = Ask extends infer One ? (One extends Ask ? Omit<One, 'n'> : never) : never

interface Caller {
  resolve(value: never): void
  reject(error: Error): void
  /** What a reading has given so far. */
  readonly items: unknown[]
}

/** What a reading gave, and what it returned at its end (see `sqliteRead.ts`). */
export interface Reading<T> {
  readonly items: T[]
  readonly value: number | null
}

/** The request thread's end of the thread that owns the file. A thread that dies is started again by the next call. */
export interface Thread {
  commit(writes: Extract<Ask, { ask: 'commit' }>['writes']): Promise<Sequence>
  read<T>(call: Extract<Call, { ask: 'list' | 'walk' | 'since' }>): Promise<Reading<T>>
  close(): Promise<void>
}

export async function startThread(given: Given, log: Log): Promise<Thread> {
  const callers = new Map<number, Caller>()
  let count = 0
  let closed = false
  let isFailing = false
  let running: Promise<Worker> | null = start()
  await running

  function start(): Promise<Worker> {
    return new Promise((resolve, reject) => {
      const worker = new Worker(new URL('./sqliteWorker.ts', import.meta.url), { workerData: given, name: 'store' })
      worker.on('message', (answer: Answer) => {
        if (answer.is === 'open') resolve(worker)
        else if (answer.is === 'refused') reject(new Unavailable(answer.message))
        else take(worker, answer)
      })
      worker.on('error', error => log.error('store thread failed', { path: given.path, cause: String(error) }))
      worker.on('exit', status => {
        running = null
        if (!closed) log.error('store thread ended', { path: given.path, status })
        reject(new Unavailable('the store thread ended'))
        for (const caller of callers.values()) caller.reject(new Unavailable('the store thread ended'))
        callers.clear()
      })
    })
  }

  function take(worker: Worker, answer: Exclude<Answer, { is: 'open' | 'refused' }>): void {
    if (answer.is === 'committed') {
      for (const result of answer.results) settle(result)
      return
    }
    const { n } = answer
    const caller = callers.get(n)!
    if (answer.is === 'slice' || answer.is === 'end') {
      for (const item of parseExact(answer.json) as unknown[]) caller.items.push(item)
    }
    if (answer.is === 'slice') {
      // Only after others had their turn: a long list must not delay requests.
      setImmediate(() => worker.postMessage({ n, ask: 'more' } satisfies Ask))
      return
    }
    callers.delete(n)
    if (answer.is === 'failed') caller.reject(new Unavailable(answer.message))
    else caller.resolve((answer.is === 'end' ? { items: caller.items, value: answer.value } : undefined) as never)
  }

  function settle(result: Committed): void {
    const caller = callers.get(result.n)!
    callers.delete(result.n)
    if ('conflict' in result) caller.reject(new Conflict(result.conflict.kind, result.conflict.id))
    else if ('sequence' in result) {
      isFailing = false
      caller.resolve(result.sequence as never)
    } else {
      // Some commits come again every second.
      if (!isFailing) log.error('store commit failed', { path: given.path, cause: result.message })
      isFailing = true
      caller.reject(result.isFull ? new Full(`${given.path}: no room is left`) : new Unavailable(result.message))
    }
  }

  async function ask<T>(call: Call): Promise<T> {
    if (closed && call.ask !== 'close') throw new Unavailable('the store is closed')
    running ??= start()
    const worker = await running
    return new Promise<T>((resolve, reject) => {
      const n = ++count
      callers.set(n, { resolve, reject, items: [] })
      worker.postMessage({ ...call, n } satisfies Ask)
    })
  }

  return {
    commit: writes => ask({ ask: 'commit', writes }),
    read: call => ask(call),
    close() {
      closed = true
      return ask({ ask: 'close' })
    }
  }
}
