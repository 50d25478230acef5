import type { Api } from './api.ts'
import type { After, Head, Route, Run } from './exchange.ts'
import { order } from './steps/order.ts'
import type { Tools } from './steps/step.ts'

/** Builds the route of one API: every step reads the document now, so that a request reads none. */
export function compileRoute(api: Api, tools: Tools): Route {
  const runs: Run[] = []
  const heads: Head[] = []
  const after: After[] = []
  for (const step of order) {
    const made = step.make(api, tools)
    if (made === null) continue
    if (made.run !== undefined) runs.push(made.run)
    if (made.head !== undefined) heads.push(made.head)
    if (made.after !== undefined) after.push(made.after)
  }
  return { api, runs, heads, after }
}
