import { chmodSync, existsSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import type { Random } from '../config/world.ts'

/** The file in the data folder that holds what was generated, one `name=value` a line. */
const FILE = 'secrets'

export interface Secrets {
  readonly gateway: string
  /** Where they are kept. */
  readonly file: string
  /** They were made just now. */
  readonly fresh: boolean
}

/** Without a settings file: the secrets of the data folder, generated on first start (mode 0600). */
export function generatedSecrets(dataFile: string, random: Random): Secrets {
  const folder = dirname(dataFile)
  const file = join(folder, FILE)
  if (existsSync(file)) {
    const gateway = /^gateway\.secret=(\S+)$/m.exec(readFileSync(file, 'utf8'))?.[1]
    if (gateway !== undefined) return { gateway, file, fresh: false }
  }
  mkdirSync(folder, { recursive: true, mode: 0o700 })
  const gateway = random.bytes(24).toString('base64url')
  writeFileSync(file, `gateway.secret=${gateway}\n`, { mode: 0o600 })
  chmodSync(file, 0o600)
  return { gateway, file, fresh: true }
}

/** The sample API of an empty store: `/echo/`, key authentication, answered by the built-in upstream. */
export const sampleApi = {
  openapi: '3.0.3',
  info: { title: 'echo', version: '1', description: 'Answers with what an upstream would have received' },
  paths: {
    '/hello': { get: { operationId: 'helloGET', responses: { '200': { description: 'the request, as JSON' } } } }
  },
  components: { securitySchemes: { key: { type: 'apiKey', in: 'header', name: 'Authorization' } } },
  security: [{ key: [] }],
  'x-svc-api-gateway': {
    info: { id: 'echo', orgId: 'default', name: 'echo', state: { active: true } },
    upstream: { url: 'svc://echo' },
    server: {
      listenPath: { value: '/echo/', strip: true },
      authentication: { enabled: true, stripAuthorizationData: true, securitySchemes: { key: { enabled: true } } }
    }
  }
}

/** Three commands that show a key-protected, rate-limited request. */
export function pastes(url: string, { gateway: secret }: Secrets): string {
  const body = JSON.stringify({
    rate: 3,
    per: 10,
    access_rights: { echo: { api_id: 'echo', api_name: 'echo', versions: ['Default'] } }
  })
  return [
    '',
    'Three commands to paste into another terminal:',
    '',
    '  1. Create a key that allows 3 requests in 10 seconds:',
    `     KEY=$(curl -s -X POST ${url}/svc/keys/create -H 'X-Svc-Authorization: ${secret}' -H 'Content-Type: application/json' -d '${body}' | sed -E 's/.*"key":"([^"]+)".*/\\1/'); echo "$KEY"`,
    '',
    '  2. Call the API with it:',
    `     curl -s ${url}/echo/hello -H "Authorization: $KEY"`,
    '',
    '  3. See the limit at work (200 200 … then 429):',
    `     for i in 1 2 3 4 5; do curl -s -o /dev/null -w '%{http_code} ' ${url}/echo/hello -H "Authorization: $KEY"; done; echo`,
    ''
  ].join('\n')
}
