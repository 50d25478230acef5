import { readlinkSync } from 'node:fs'
import { constants, getPriority, setPriority } from 'node:os'
import { basename } from 'node:path'
import { parentPort } from 'node:worker_threads'
import { fits, type HashType, hashed } from './hashes.ts'

/** Asked of the thread, one at a time: a new hash, or whether a password fits one. */
export type Ask = { readonly text: string } & ({ readonly type: HashType } | { readonly hash: string })

/** Null: it could not be done. */
export type Answer = string | boolean | null

/** Linux alone gives threads a priority of their own; elsewhere it would be the whole process's. */
function giveWay(): void {
  if (process.platform !== 'linux') return
  try {
    // `<pid>/task/<tid>`. Below the process's own and not lowest: on a core that is never idle, lowest would take seconds a
    // password.
    const thread = Number(basename(readlinkSync('/proc/thread-self')))
    const { PRIORITY_BELOW_NORMAL, PRIORITY_LOW } = constants.priority
    if (Number.isInteger(thread))
      setPriority(thread, Math.min(getPriority(thread) + PRIORITY_BELOW_NORMAL, PRIORITY_LOW))
  } catch {
    // No /proc, or not allowed: the work is the same.
  }
}

giveWay()

parentPort!.on('message', (ask: Ask) => {
  let value: Answer = null
  try {
    value = 'hash' in ask ? fits(ask.text, ask.hash) : hashed(ask.text, ask.type)
  } catch {
    // A hash that is none fits nothing.
    value = 'hash' in ask ? false : null
  }
  parentPort!.postMessage(value satisfies Answer)
})
