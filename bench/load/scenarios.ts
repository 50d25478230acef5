import { keys } from './keys.ts'
import { large } from './large.ts'
import { latency } from './latency.ts'
import { limited } from './limited.ts'
import { management } from './management.ts'
import { memory } from './memory.ts'
import { post } from './post.ts'
import { proxy } from './proxy.ts'
import { refused } from './refused.ts'
import { reload } from './reload.ts'
import { routes } from './routes.ts'
import type { Scenario } from './scenario.ts'

/** The one list of them. */
export const scenarios: readonly Scenario[] = [
  proxy,
  limited,
  refused,
  post,
  large,
  routes,
  reload,
  keys,
  management,
  latency,
  memory
]
