import { authentication } from './authentication.ts'
import { fanoutSse, fanoutWs } from './fanout.ts'
import { https } from './https.ts'
import { keys } from './keys.ts'
import { large } from './large.ts'
import { latency } from './latency.ts'
import { limited } from './limited.ts'
import { limitedRedis } from './limitedRedis.ts'
import { management } from './management.ts'
import { memory } from './memory.ts'
import { post } from './post.ts'
import { produce } from './produce.ts'
import { proxy } from './proxy.ts'
import { redisOutage } from './redisOutage.ts'
import { refused } from './refused.ts'
import { reload } from './reload.ts'
import { rollingRestart } from './rollingRestart.ts'
import { roundRobin } from './roundRobin.ts'
import { routes } from './routes.ts'
import type { Scenario } from './scenario.ts'
import { streamBeside } from './streamBeside.ts'
import { streamIdle } from './streamIdle.ts'
import { streamLatency } from './streamLatency.ts'
import { workers } from './workers.ts'
import { wrongPasswords } from './wrongPasswords.ts'

/** The one list of them. */
export const scenarios: readonly Scenario[] = [
  proxy,
  limited,
  limitedRedis,
  workers,
  redisOutage,
  rollingRestart,
  authentication,
  wrongPasswords,
  https,
  refused,
  post,
  large,
  routes,
  reload,
  keys,
  management,
  latency,
  memory,
  produce,
  fanoutSse,
  fanoutWs,
  roundRobin,
  streamLatency,
  streamIdle,
  streamBeside
]
