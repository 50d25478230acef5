import { createSign, generateKeyPairSync, type KeyObject } from 'node:crypto'
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { type GatewayContender, gateway, generous, type StartedGateway } from './contenders.ts'
import type { Scheme } from './documents.ts'
import type { Tokens } from './generators/load.ts'

/** What callers show instead of a key, and gateways that ask for it. */

const { publicKey, privateKey } = generateKeyPairSync('rsa', { modulusLength: 2048 })
const pem = String(publicKey.export({ format: 'pem', type: 'spki' }))

/** Callers by name; each is a session of its own. */
const CALLERS = 1_000
const POLICY = 'bench'

const jwtScheme: Scheme = {
  described: { type: 'http', scheme: 'bearer', bearerFormat: 'JWT' },
  settings: { signingMethod: 'rsa', source: Buffer.from(pem).toString('base64'), defaultPolicies: [POLICY] }
}

export const basicScheme: Scheme = { described: { type: 'http', scheme: 'basic' }, settings: {} }

/** Tokens of RS256 that end in an hour, of some callers in turn. Signing one takes half a millisecond. */
export function writeTokens(folder: string, count: number, order: Tokens['order']): Tokens {
  const lines = Array.from({ length: count }, (_, i) => `Bearer ${signed(i, privateKey)}`)
  const file = join(folder, `tokens-${count}`)
  writeFileSync(file, `${lines.join('\n')}\n`)
  const [{ length }] = lines as [string]
  if (lines.some(line => line.length !== length)) throw new Error('tokens differ in length')
  return { file, length, count, ...(order === undefined ? {} : { order }) }
}

function signed(i: number, key: KeyObject): string {
  const part = (value: object) => Buffer.from(JSON.stringify(value)).toString('base64url')
  const now = Math.floor(Date.now() / 1000)
  // Of one width, so that all tokens are of one length.
  const claims = {
    iss: 'https://issuer.example',
    sub: `caller-${1_000_000 + (i % CALLERS)}`,
    aud: 'bench',
    iat: now,
    exp: now + 3600,
    jti: `${1_000_000_000 + i}`
  }
  const text = `${part({ alg: 'RS256', typ: 'JWT' })}.${part(claims)}`
  return `${text}.${createSign('sha256').update(text).sign(key, 'base64url')}`
}

type Env = Readonly<Record<string, string>>

/** A gateway whose callers are known by JWTs, with the limits of a generous key each. */
export function jwtGateway(name: string, env: Env): GatewayContender {
  return withScheme(name, env, jwtScheme, async ({ svc }) => {
    const access_rights = { bench: { api_id: 'bench', api_name: 'bench', versions: ['Default'] } }
    await svc('POST', '/svc/policies', { id: POLICY, name: POLICY, active: true, ...generous, access_rights })
    return {}
  })
}

export const USER = 'bench'
export const PASSWORD = 'correct-horse-battery'

/** A gateway with one user, whose name and password the load carries. */
export function basicGateway(name: string, env: Env): GatewayContender {
  return withScheme(name, env, basicScheme, async ({ svc }) => {
    await createUser(svc)
    return { Authorization: basicOf(USER, PASSWORD) }
  })
}

export function createUser(svc: StartedGateway['svc'], id = 'bench'): Promise<unknown> {
  const access_rights = { [id]: { api_id: id, api_name: id, versions: ['Default'] } }
  return svc('POST', `/svc/keys/${USER}`, { ...generous, access_rights, basic_auth_data: { password: PASSWORD } })
}

export function basicOf(user: string, password: string): string {
  return `Basic ${Buffer.from(`${user}:${password}`).toString('base64')}`
}

function withScheme(
  name: string,
  env: Env,
  access: Scheme,
  prepare: (started: StartedGateway) => Promise<Record<string, string>>
): GatewayContender {
  const made = gateway({ name, env, apis: upstream => [{ id: 'bench', listenPath: '/bench/', upstream, access }] })
  return {
    name,
    async start(upstream) {
      const started = await made.start(upstream)
      const headers = await prepare(started)
      return { ...started, load: { ...started.load, headers } }
    }
  }
}
