import { setTimeout as wait } from 'node:timers/promises'
import type { Test } from 'tap'

/** A second is the bound for what another process does; the machine may be slow, so twice as long is waited. */
export async function soon(
  t: Test,
  what: string,
  status: number,
  call: () => Promise<{ status: number }>
): Promise<void> {
  const until = Date.now() + 2_000
  let last = 0
  while (Date.now() < until) {
    last = (await call()).status
    if (last === status) return void t.pass(what)
    await wait(20)
  }
  t.fail(`${what}: ${last}, not ${status}`)
}
