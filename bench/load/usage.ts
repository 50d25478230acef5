import { readFileSync } from 'node:fs'

/** What a process has used so far. */

/** CPU time of a process with all its threads, user and system, in µs (steps of 10 ms); NaN where there is no /proc. */
export function cpuTime(pid: number): number {
  const stat = proc(pid, 'stat')
  // The name in brackets may hold spaces; the state behind it is field 3, utime 14, stime 15. A tick is 10 ms on Linux.
  const fields = stat.slice(stat.lastIndexOf(')') + 2).split(' ')
  return (Number(fields[11]) + Number(fields[12])) * 10_000
}

/** Resident memory in MiB, now and at its highest; NaN where there is no /proc. */
export function memory(pid: number): { rss: number; peak: number } {
  const status = proc(pid, 'status')
  const kilobytes = (name: string) => Number(new RegExp(`^${name}:\\s*(\\d+) kB`, 'm').exec(status)?.[1] ?? Number.NaN)
  return { rss: kilobytes('VmRSS') / 1024, peak: kilobytes('VmHWM') / 1024 }
}

/** Its calls to the system that wrote, to files and sockets alike; NaN where there is no /proc. */
export function writeCalls(pid: number): number {
  return Number(/^syscw: (\d+)/m.exec(proc(pid, 'io'))?.[1] ?? Number.NaN)
}

function proc(pid: number, file: string): string {
  try {
    return readFileSync(`/proc/${pid}/${file}`, 'utf8')
  } catch {
    return ''
  }
}
