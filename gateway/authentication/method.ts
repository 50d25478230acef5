import type { Api, Scheme, SchemeKind } from '../api.ts'
import type { Run } from '../exchange.ts'
import type { Tools } from '../steps/step.ts'

/**
 * One way of telling who calls. `run` refuses, or leaves in the exchange who it is: `key` and `credential`, and, where the
 * credential has them, `claims` and `validUntil`. It never looks at what another method left there.
 */
export interface Method {
  readonly kind: SchemeKind
  readonly run: Run
}

/** Reads a scheme once; what a request needs is made here. */
export type MakeMethod<S extends Scheme> = (scheme: S, api: Api, tools: Tools) => Method
