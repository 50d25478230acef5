import { type Contender, gateway, generous } from './contenders.ts'
import { measureWarm, type Round, ratio, report } from './rounds.ts'
import { progress, type Scenario, target } from './scenario.ts'
import { figure } from './table.ts'
import { startUpstream } from './upstream.ts'

/** Threads share a port by the kernel's choice for each connection: fewer connections would lie unevenly. */
const CONNECTIONS = 256

/**
 * One core for everything against two for everything: threads cannot have two cores to themselves where generator and
 * upstream need one of two.
 */
export const workers: Scenario = {
  name: 'workers',
  summary: 'one thread, generator and upstream on one core, against two threads and both others on two',
  async run(options) {
    const results = new Map<string, Round[]>()
    const entries = [
      { name: '1 worker, 1 core', workers: 1, place: 'gateway' },
      { name: '2 workers, 2 cores', workers: 2, place: 'both' }
    ] as const
    for (let round = 1; round <= options.rounds; round++) {
      for (const { name, workers: count, place } of round % 2 === 1 ? entries : entries.toReversed()) {
        const upstream = await startUpstream(place)
        const env = { ...options.env, SVC_GATEWAY__WORKERS: String(count) }
        const contender: Contender = gateway({ name, env, key: generous, place })
        const started = await contender.start(upstream)
        const load = { connections: CONNECTIONS, place }
        const measured = await measureWarm({ contender, load }, started, options)
        await started.stop()
        await upstream.stop()
        results.set(name, [...(results.get(name) ?? []), measured])
        progress(`round ${round}/${options.rounds}  ${name}: ${figure(measured.perSecond)}/s`)
      }
    }
    const [one, two] = entries
    return report(
      `Key, rate limit and quota in memory, ${CONNECTIONS} connections`,
      results,
      [one.name],
      [target('2 workers ÷ 1', ratio(results, 'perSecond', two.name, one.name), '>=', 1.7)]
    )
  }
}
