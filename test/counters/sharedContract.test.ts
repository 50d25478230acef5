import t from 'tap'
import { countersMemory } from '../../gateway/counters/countersMemory.ts'
import { countersShared } from '../../gateway/counters/shared/countersShared.ts'
import { countersContract } from '../contract/counters.ts'
import { collectedLog } from '../helpers/gateway.ts'
import { fakeServer } from './fakeRemote.ts'

countersContract(
  t,
  given => {
    const clock = { now: given.now, after: () => () => {} }
    const server = fakeServer(clock)
    return countersShared({
      remote: server.remote(),
      local: countersMemory({ clock, maxEntries: 1024 }),
      clock,
      log: collectedLog(),
      settings: { counters_timeout_ms: 50, counters_failure: 'refuse' },
      status: () => {}
    })
  },
  { runs: 40 }
)
