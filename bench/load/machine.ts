import { accessSync, constants, readFileSync } from 'node:fs'
import { availableParallelism, cpus, loadavg, release, type } from 'node:os'
import { delimiter, join } from 'node:path'

/** What this machine has, and on which of its cores things run. */

/** The path of a program, or null. Debian keeps servers in folders that are not in everybody's PATH. */
export function installed(program: string): string | null {
  for (const folder of [...(process.env.PATH ?? '').split(delimiter), '/usr/sbin', '/usr/local/sbin']) {
    const path = join(folder, program)
    try {
      accessSync(path, constants.X_OK)
      return path
    } catch {
      // Not in this folder.
    }
  }
  return null
}

const taskset = installed('taskset')

/** Cores that this process may use, as Linux tells them: `0-3,8`. */
function allowedCores(): number[] {
  let list: string | undefined
  try {
    list = /^Cpus_allowed_list:\s*(\S+)/m.exec(readFileSync('/proc/self/status', 'utf8'))?.[1]
  } catch {
    // No /proc: another system.
  }
  return (list ?? '').split(',').flatMap(range => {
    const [first, last = first] = range.split('-')
    if (first === undefined || first === '') return []
    return Array.from({ length: Number(last) - Number(first) + 1 }, (_, i) => Number(first) + i)
  })
}

const cores = taskset === null ? [] : allowedCores()

/** `gateway`: what is measured. `others`: the generator and the upstream. `both`: everything on both cores. */
export type Place = 'gateway' | 'others' | 'both'

/** The command that runs a program on its core; the program itself where cores cannot be chosen. */
export function pinned(place: Place, program: string, args: readonly string[]): [string, string[]] {
  if (taskset === null || cores.length < 2) return [program, [...args]]
  const list = { gateway: `${cores[0]}`, others: `${cores[1]}`, both: `${cores[0]},${cores[1]}` }[place]
  return [taskset, ['-c', list, program, ...args]]
}

/** What stands at the head of a result. */
export function machine(): string[] {
  const lines = [
    `${cpus()[0]?.model ?? 'unknown processor'}, ${availableParallelism()} cores, ${type()} ${release()}, load ${loadavg()[0]!.toFixed(2)} at the start`,
    `Node ${process.version}, ${new Date().toISOString()}`,
    cores.length >= 2
      ? `gateway and references on core ${cores[0]}, generator and upstream on core ${cores[1]}`
      : 'nothing pinned to a core'
  ]
  const without = [
    ...['wrk', 'h2load', 'nginx', 'taskset'].filter(program => installed(program) === null),
    ...(cores.length < 2 && taskset !== null ? ['a second core'] : [])
  ]
  if (without.length > 0) lines.push(`done without: ${without.join(', ')}`)
  return lines
}
