import type { Clock } from '../../config/world.ts'
import type { Charge, CounterState, Verdict } from '../../gateway/counters/counters.ts'
import { type CountersMemory, countersMemory } from '../../gateway/counters/countersMemory.ts'
import { type Remote, RemoteFault, type Taken } from '../../gateway/counters/remote.ts'

/** Counters that several processes share, as a server would hold them, and the wire between. */
export interface FakeServer {
  readonly counters: CountersMemory
  /** `gone`: connections are lost; `silent`: answers wait until it is `up` again; otherwise a fault that it answers with. */
  state: 'up' | 'silent' | 'gone' | string
  /** How much later than ours its clock is. */
  skew: number
  processes: number
  readonly calls: { charge: number; look: number; forget: number; alive: number }
  readonly returned: { id: string; units: number }[]
  readonly added: CounterState[]
  /** For one process. */
  remote(): Remote
  set(state: string): void
}

export function fakeServer(clock: Clock): FakeServer {
  const connected = new Set<(isConnected: boolean) => void>()
  const forgotten = new Set<(ids: readonly string[] | null) => void>()
  const waiting: (() => void)[] = []
  const calls = { charge: 0, look: 0, forget: 0, alive: 0 }
  let skewed = () => 0
  const server: FakeServer = {
    counters: countersMemory({ clock: { now: () => clock.now() + skewed() }, maxEntries: 1024 }),
    state: 'up',
    skew: 0,
    processes: 1,
    calls,
    returned: [],
    added: [],
    set(state) {
      const was = server.state
      server.state = state
      if (state === 'gone') for (const listener of connected) listener(false)
      if (was === 'gone') for (const listener of connected) listener(true)
      if (state === 'up') for (const go of waiting.splice(0)) go()
    },
    remote
  }
  skewed = () => server.skew

  /** What arrives is done, and answered when there is somebody to answer. */
  async function told<T>(run: () => T): Promise<T> {
    await null
    if (server.state === 'silent') await new Promise<void>(resolve => waiting.push(resolve))
    if (server.state === 'gone') throw new RemoteFault('not connected')
    if (server.state !== 'up') throw new RemoteFault(server.state)
    return run()
  }

  function charge(limits: readonly Charge[], units: number, most: readonly number[] | null): Taken {
    const verdict: Verdict = { refused: -1, standings: [], now: 0 }
    const standings = [...verdict.standings]
    const taken: number[] = []
    for (const [i, limit] of limits.entries()) {
      let { refused, standings: told, now } = server.counters.charge([limit], units)
      let took = refused < 0 ? (limit.kind === 'quota' ? units : 1) : 0
      while (refused < 0 && took < (most?.[i] ?? 0) && told[0]!.remaining > 0) {
        ;({ standings: told, now } = server.counters.charge([limit]))
        took++
      }
      standings.push(told[0]!)
      taken.push(took)
      if (refused >= 0) return { refused: i, standings, taken, now }
      if (i === limits.length - 1) return { refused: -1, standings, taken, now }
    }
    return { refused: -1, standings, taken, now: clock.now() + server.skew }
  }

  function remote(): Remote {
    return {
      charge(limits, units, most) {
        calls.charge++
        return told(() => charge(limits, units, most))
      },
      look(limits) {
        calls.look++
        return told(() => server.counters.look(limits))
      },
      forget(ids) {
        calls.forget++
        return told(() => {
          server.counters.forget(ids)
          for (const listener of forgotten) listener(ids)
        })
      },
      onForgotten: listener => void forgotten.add(listener),
      giveBack: (limit, units) => told(() => void server.returned.push({ id: limit.id, units })),
      add: states => told(() => void server.added.push(...states)),
      restore: states => told(() => server.counters.restore(states)),
      dump: limit => server.counters.dump(limit),
      alive() {
        calls.alive++
        return told(() => server.processes)
      },
      get isConnected() {
        return server.state !== 'gone'
      },
      onConnected: listener => void connected.add(listener),
      async close() {}
    }
  }
  return server
}
