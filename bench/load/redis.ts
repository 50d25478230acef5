import { installed, type Place } from './machine.ts'
import { freePort, type Running, run, start } from './processes.ts'

const redis = installed('redis-server')
const FIXED = ['--bind', '127.0.0.1', '--save', '', '--appendonly', 'no']

/** A Redis that keeps nothing on the disk. @throws Error where none is installed */
export async function startRedis(place: Place, port?: number): Promise<Running> {
  if (redis === null) throw new Error('redis-server is not installed: apt-get install redis-server')
  const listens = port ?? (await freePort())
  const args = [...FIXED, '--port', String(listens)]
  return start({ name: 'redis', place, program: redis, args, port: listens })
}

export function portOf({ url }: Running): number {
  return Number(new URL(url).port)
}

/** The gateway's settings for counters in it. */
export function inRedis(running: Running): Readonly<Record<string, string>> {
  return {
    SVC_STORAGE__COUNTERS__TYPE: 'redis',
    SVC_STORAGE__COUNTERS__URL: running.url.replace('http:', 'redis:')
  }
}

/** Commands that clients have sent so far. What runs inside of scripts is counted by Redis as well, and left out here. */
export async function calls(running: Running): Promise<number> {
  const stats = await run('others', 'redis-cli', ['-p', String(portOf(running)), 'info', 'commandstats'])
  const found = [...stats.matchAll(/^cmdstat_(\S+?):calls=(\d+)/gm)]
  return found.reduce((sum, [, name, count]) => sum + (SENT.has(name!) ? Number(count) : 0), 0)
}

/** By which decisions travel, and what else a gateway sends at its own pace. */
const SENT = new Set(['eval', 'evalsha', 'evalsha_ro', 'script|load', 'publish', 'ping'])
