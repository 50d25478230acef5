import { identification } from '../authentication/groups.ts'
import type { Step } from './step.ts'

/** Finds out who calls, by the methods that the API asks for. Operations with `ignoreAuthentication` pass without. */
export const authentication: Step = {
  name: 'authentication',
  make(api, tools) {
    if (api.authentication === null) return null
    const identify = identification(api.authentication, api, tools)
    return {
      run: x => (x.operation?.ignoreAuthentication ? undefined : identify(x))
    }
  }
}
