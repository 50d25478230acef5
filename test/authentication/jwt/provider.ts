import { createServer, type IncomingMessage, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
// @ts-expect-error: it comes without types
import Provider from 'oidc-provider'
import type { Test } from 'tap'
import { type Pair, rsa } from './signing.ts'

export interface TestProvider {
  readonly issuer: string
  readonly jwks: string
  /** How often the key set was asked for. */
  readonly asked: () => number
  /** A new access token by client credentials. */
  token(): Promise<string>
  /** From now on it signs with a new key; `keeps`: the old one stays in its set. */
  rotate(given: { readonly keeps: boolean }): void
  /** It answers everything with 503, or not any longer. */
  away(isAway: boolean): void
}

/** A real identity provider (oidc-provider) that gives JWT access tokens for the audience `shop`. */
export async function provider(t: Test): Promise<TestProvider> {
  const now = { isAway: false, asked: 0, answer: (_req: IncomingMessage, _res: ServerResponse): unknown => undefined }
  const server = createServer((req, res) => {
    if (req.url === '/jwks') now.asked++
    if (now.isAway) return void res.writeHead(503).end()
    now.answer(req, res)
  })
  await new Promise<void>(resolve => server.listen(0, '127.0.0.1', resolve))
  t.teardown(() => {
    server.closeAllConnections()
    server.close()
  })
  const issuer = `http://127.0.0.1:${(server.address() as AddressInfo).port}`
  let pairs: Pair[] = [rsa()]
  const start = () => {
    const keys = pairs.map(({ privateKey }) => ({ ...privateKey.export({ format: 'jwk' }), use: 'sig', alg: 'RS256' }))
    const made = new Provider(issuer, {
      jwks: { keys } as never,
      clients: [
        {
          client_id: 'machine',
          client_secret: 'secret of the machine',
          grant_types: ['client_credentials'],
          redirect_uris: [],
          response_types: []
        }
      ],
      features: {
        clientCredentials: { enabled: true },
        devInteractions: { enabled: false },
        resourceIndicators: {
          enabled: true,
          getResourceServerInfo: () => ({
            scope: 'read write',
            audience: 'shop',
            accessTokenFormat: 'jwt' as const,
            accessTokenTTL: 3600,
            jwt: { sign: { alg: 'RS256' as const } }
          })
        }
      }
    })
    now.answer = made.callback()
  }
  start()
  return {
    issuer,
    jwks: `${issuer}/jwks`,
    asked: () => now.asked,
    async token() {
      const answer = await fetch(`${issuer}/token`, {
        method: 'POST',
        headers: { Authorization: `Basic ${btoa('machine:secret%20of%20the%20machine')}` },
        body: new URLSearchParams({ grant_type: 'client_credentials', scope: 'read', resource: 'https://shop.example' })
      })
      const body = (await answer.json()) as { access_token?: string }
      if (body.access_token === undefined) throw new Error(`no token: ${JSON.stringify(body)}`)
      return body.access_token
    },
    rotate({ keeps }) {
      pairs = [rsa(), ...(keeps ? pairs : [])]
      start()
    },
    away(isAway) {
      now.isAway = isAway
    }
  }
}
