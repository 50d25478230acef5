import type { Counters } from '../counters.ts'
import type { Remote } from '../remote.ts'

/** The port of all counting over counters outside of the process, with nothing between: each question is a call. */
export function countersOf(remote: Remote): Counters {
  return {
    charge: async (limits, units = 1) => {
      const { refused, standings, now } = await remote.charge(limits, units, null)
      return { refused, standings, now }
    },
    look: limits => remote.look(limits),
    forget: ids => remote.forget(ids),
    dump: limit => remote.dump(limit),
    restore: states => remote.restore(states)
  }
}
