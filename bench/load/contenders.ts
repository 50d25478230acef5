import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { type ApiOptions, path, writeDocuments } from './documents.ts'
import type { Load } from './generator.ts'
import type { Place } from './machine.ts'
import { nginx, startNginx } from './nginx.ts'
import { folder, type Running, start } from './processes.ts'

/** What stands between the generator and the upstream: the gateway in its various states, and the references. */
export interface Contender {
  readonly name: string
  start(upstream: Running): Promise<Started>
}

export interface Started {
  readonly running: Running
  /** Counts something beside requests, from its start on: `Round.tally` tells how much of it a request took. */
  readonly tally?: () => Promise<number>
  /** How to reach it. */
  readonly load: Pick<Load, 'url' | 'headers'>
  stop(): Promise<void>
}

export interface StartedGateway extends Started {
  /** Where its API documents lie. */
  readonly documents: string
  /** Calls `/svc/…`. @throws Error when it does not answer 200 */
  svc(method: 'GET' | 'POST', path: string, body?: unknown): Promise<unknown>
}

export interface GatewayContender extends Contender {
  start(upstream: Running): Promise<StartedGateway>
}

export interface GatewayOptions {
  readonly name: string
  readonly env: Readonly<Record<string, string>>
  /** Default: one API, which asks for a key when `key` is given. */
  readonly apis?: (upstream: string) => readonly ApiOptions[]
  /** Limits of a key to create; the load carries it. */
  readonly key?: {
    readonly rate: number
    readonly per: number
    readonly quota_max?: number
    readonly quota_renewal_rate?: number
  }
  readonly accessLog?: 'file' | 'off'
  /** Where it runs; default: a core of its own. */
  readonly place?: Place
  /** An SQLite file that exists; default: a new one. */
  readonly store?: string
}

export const COMPILED = {
  NODE_COMPILE_CACHE: fileURLToPath(new URL('../../node_modules/.cache/compiled', import.meta.url))
}
/** Node as the gateway is started; the references get the same. */
export const flags = ['--disable-warning=ExperimentalWarning', '--max-semi-space-size=16']
export const program = fileURLToPath(new URL('../../gateway/main.ts', import.meta.url))
const file = (name: string) => fileURLToPath(new URL(name, import.meta.url))

export function gateway(options: GatewayOptions): GatewayContender {
  return { name: options.name, start: upstream => startGateway(options, upstream) }
}

async function startGateway(options: GatewayOptions, upstream: Running): Promise<StartedGateway> {
  const { name, env, key, accessLog = 'off' } = options
  const temp = folder()
  const documents = join(temp.path, 'apis')
  const access = key === undefined ? 'keyless' : 'key'
  const apis = options.apis?.(upstream.url) ?? [{ id: 'bench', listenPath: '/bench/', upstream: upstream.url, access }]
  writeDocuments(documents, apis)
  const secret = 'only-for-this-bench'
  const config = join(temp.path, 'settings.json')
  const settings = {
    gateway: {
      listen_address: '127.0.0.1',
      listen_port: 0,
      secret,
      app_path: documents,
      access_logs: accessLog === 'off' ? { enabled: false } : { enabled: true, path: join(temp.path, 'access.log') }
    },
    management: { enabled: false },
    storage: { documents: { type: 'sqlite', path: options.store ?? join(temp.path, 'svc.db') } }
  }
  writeFileSync(config, JSON.stringify(settings))
  const args = [...flags, program, '--config', config]
  const running = await start({
    name,
    place: options.place ?? 'gateway',
    program: process.execPath,
    args,
    env: { ...COMPILED, ...env },
    port: null
  })

  async function svc(method: 'GET' | 'POST', where: string, body?: unknown): Promise<unknown> {
    const response = await fetch(running.url + where, {
      method,
      headers: { 'X-Svc-Authorization': secret, ...(body === undefined ? {} : { 'Content-Type': 'application/json' }) },
      body: body === undefined ? null : JSON.stringify(body)
    })
    const text = await response.text()
    if (response.status !== 200) throw new Error(`${method} ${where}: ${response.status} ${text.slice(0, 500)}`)
    return JSON.parse(text)
  }

  const headers: Record<string, string> = key === undefined ? {} : { Authorization: await createKey(svc, key) }
  const load = { url: running.url + path, headers }
  const stop = async () => {
    await running.stop()
    temp.remove()
  }
  return { running, documents, svc, load, stop }
}

async function createKey(svc: StartedGateway['svc'], limits: NonNullable<GatewayOptions['key']>): Promise<string> {
  const rights = { bench: { api_id: 'bench', api_name: 'bench', versions: ['Default'] } }
  const { key } = (await svc('POST', '/svc/keys/create', { ...limits, access_rights: rights })) as { key: string }
  return key
}

/** A key whose limits are counted and never reached. */
export const generous = { rate: 1e9, per: 60, quota_max: 1e12, quota_renewal_rate: 3600 }

function script(name: string, source: string): Contender {
  return {
    name,
    async start(upstream) {
      const args = [...flags, '--disable-warning=DEP0060', file(source), upstream.url]
      const running = await start({ name, place: 'gateway', program: process.execPath, args, port: null })
      return { running, load: { url: running.url + path }, stop: running.stop }
    }
  }
}

const httpProxy = script('http-proxy', 'servers/httpProxy.ts')
export const bareUndici = script('bare undici', 'servers/bareUndici.ts')

/**
 * Connections to the upstream kept.
 * @param bodies `buffered`: as nginx does unless told otherwise; `streamed`: large ones would go to the disk meanwhile
 */
function nginxProxy(bodies: 'buffered' | 'streamed'): Contender[] {
  if (nginx === null) return []
  const streamed = bodies === 'streamed' ? 'proxy_buffering off; proxy_request_buffering off;' : ''
  const location = `proxy_pass http://others; proxy_http_version 1.1; proxy_set_header Connection ""; ${streamed}`
  return [
    {
      name: 'nginx',
      async start(upstream) {
        const { host } = new URL(upstream.url)
        const http = `upstream others { server ${host}; keepalive 128; keepalive_requests 1000000000; keepalive_timeout 75s; }`
        const running = await startNginx('nginx', 'gateway', http, location)
        return { running, load: { url: running.url + path }, stop: running.stop }
      }
    }
  ]
}

/** http-proxy always, nginx where it is installed. */
export const references: readonly Contender[] = [httpProxy, ...nginxProxy('buffered')]
export const streamingReferences: readonly Contender[] = [httpProxy, ...nginxProxy('streamed')]
