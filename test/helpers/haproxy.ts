import { type ChildProcess, spawn, spawnSync } from 'node:child_process'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as pause } from 'node:timers/promises'
import { freePorts } from './kafkaFiles.ts'
import type { Ending } from './postgres.ts'
import { guarded } from './serverProcess.ts'

/** The repository's own `deploy/haproxy.cfg`. */
export const haproxyFile = join(import.meta.dirname, '../../deploy/haproxy.cfg')

/** A HAProxy with that file on the loopback interface. */
export interface TestHaproxy {
  /** Base URL of the frontend of APIs, of the one of management, and of its own figures. */
  readonly url: string
  readonly management: string
  readonly status: string
  /** `UP`, `DOWN`, `UP 1/2` …, as its checks see a gateway. */
  state(server: 'gateway-1' | 'gateway-2'): Promise<string>
  /** Resolves once the checks see it so. */
  until(server: 'gateway-1' | 'gateway-2', state: 'UP' | 'DOWN'): Promise<void>
}

export interface HaproxyGiven {
  /** Ports of the two gateways on the loopback interface, and of their management. */
  readonly gateways: readonly [number, number]
  readonly managements: readonly [number, number]
}

/** It ends with the test. @throws Error that names the package, on a machine without HAProxy */
export async function haproxy(t: Ending, given: HaproxyGiven): Promise<TestHaproxy> {
  needHaproxy()
  const folder = mkdtempSync(join(tmpdir(), 'svc-haproxy-'))
  const [apis, management, status] = (await freePorts(3)) as [number, number, number]
  const at = (port: number) => `127.0.0.1:${port}`
  const child = spawn('haproxy', ['-db', '-f', haproxyFile], {
    env: {
      PATH: process.env.PATH,
      SVC_LISTEN: at(apis),
      SVC_MANAGEMENT_LISTEN: at(management),
      SVC_STATUS_LISTEN: at(status),
      SVC_GATEWAY_1: at(given.gateways[0]),
      SVC_GATEWAY_2: at(given.gateways[1]),
      SVC_MANAGEMENT_1: at(given.managements[0]),
      SVC_MANAGEMENT_2: at(given.managements[1])
    },
    stdio: ['ignore', 'ignore', 'pipe']
  })
  let said = ''
  child.stderr.on('data', chunk => {
    said = (said + chunk).slice(-10_000)
  })
  const guard = guarded(child.pid, folder, 'KILL')
  t.teardown(async () => {
    await stop(child)
    guard.kill('SIGKILL')
    rmSync(folder, { recursive: true, force: true })
  })
  const line = async (server: string) => {
    const answer = await fetch(`http://${at(status)}/status;csv`)
    const rows = (await answer.text()).split('\n').map(row => row.split(','))
    const column = rows[0]!.indexOf('status')
    return rows.find(row => row[0] === 'gateways' && row[1] === server)![column]!
  }
  for (;;) {
    if (child.exitCode !== null) throw new Error(`HAProxy ended: ${said}`)
    const isThere = await line('gateway-1').then(
      () => true,
      () => false
    )
    if (isThere) break
    await pause(10)
  }
  return {
    url: `http://${at(apis)}`,
    management: `http://${at(management)}`,
    status: `http://${at(status)}`,
    state: line,
    async until(server, state) {
      while ((await line(server)) !== state) await pause(20)
    }
  }
}

/** @throws Error that names the package */
export function needHaproxy(): void {
  if (spawnSync('haproxy', ['-v'], { stdio: 'ignore' }).error !== undefined)
    throw new Error('HAProxy is missing: install the Debian package haproxy')
}

async function stop(child: ChildProcess): Promise<void> {
  if (child.exitCode !== null || child.signalCode !== null) return
  const ended = new Promise(resolve => child.on('exit', resolve))
  child.kill('SIGKILL')
  await ended
}
