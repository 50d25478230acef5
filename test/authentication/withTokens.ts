import { createHash, createHmac } from 'node:crypto'
import type { IncomingMessage, ServerResponse } from 'node:http'
import { api, type TestGateway } from '../helpers/gateway.ts'

/** APIs whose callers have tokens of somebody else's, and such tokens. */

export const TOKEN_SECRET = 'a secret, which signs tokens - of tests!'

const base64url = (value: unknown) => Buffer.from(JSON.stringify(value)).toString('base64url')

/** A token (RFC 7519) signed with HS256. */
export function signed(claims: Record<string, unknown>, header: Record<string, unknown> = {}): string {
  const content = `${base64url({ alg: 'HS256', typ: 'JWT', ...header })}.${base64url(claims)}`
  return `${content}.${createHmac('sha256', TOKEN_SECRET).update(content).digest('base64url')}`
}

interface Extension {
  readonly server?: object
  readonly middleware?: object
  readonly info?: object
  readonly authentication?: object
}

/** An API behind JSON Web Tokens. */
export function jwtApi(id: string, scheme: object = {}, extension: Extension = {}, paths: object = {}) {
  const { authentication = {}, server = {}, ...rest } = extension
  const document: any = api(
    id,
    'svc://echo',
    {
      ...rest,
      server: {
        ...server,
        authentication: {
          enabled: true,
          securitySchemes: {
            jwt: {
              enabled: true,
              signingMethod: 'hmac',
              source: TOKEN_SECRET,
              skipKid: true,
              identityBaseField: 'sub',
              ...scheme
            }
          },
          ...authentication
        }
      }
    },
    paths
  )
  document.components.securitySchemes = { jwt: { type: 'http', scheme: 'bearer', bearerFormat: 'JWT' } }
  return document
}

/** An API whose tokens an authorization server is asked about. */
export function introspectedApi(
  id: string,
  url: string,
  scheme: object = {},
  more: object = {},
  extension: Extension = {}
) {
  const { authentication = {}, server = {}, ...rest } = extension
  const document: any = api(id, 'svc://echo', {
    ...rest,
    server: {
      ...server,
      authentication: {
        enabled: true,
        securitySchemes: {
          oauth: {
            enabled: true,
            providers: [
              { introspection: { enabled: true, url, clientId: 'gateway', clientSecret: 'hush-hush', ...scheme } }
            ],
            ...more
          }
        },
        ...authentication
      }
    }
  })
  document.components.securitySchemes = { oauth: { type: 'oauth2', flows: {} } }
  return document
}

/** An authorization server that answers as `told` says, by token; what it was asked is in `asked`. */
export function introspecting(told: (token: string) => unknown) {
  const asked: URLSearchParams[] = []
  const answer = (req: IncomingMessage, res: ServerResponse) => {
    const chunks: Buffer[] = []
    req.on('data', (chunk: Buffer) => chunks.push(chunk))
    req.on('end', () => {
      const form = new URLSearchParams(Buffer.concat(chunks).toString())
      asked.push(form)
      res.setHeader('Content-Type', 'application/json')
      res.end(JSON.stringify(told(form.get('token')!)))
    })
  }
  return { asked, answer }
}

export const md5 = (name: string) => createHash('md5').update(name).digest('hex')

/** Creates a policy that opens these APIs. */
export async function policy(gw: TestGateway, id: string, apis: readonly string[], more: object = {}): Promise<void> {
  const access_rights = Object.fromEntries(
    apis.map(each => [each, { api_id: each, api_name: each, versions: ['Default'] }])
  )
  const { status, body } = await gw.svc('POST', '/svc/policies', {
    id,
    name: id,
    org_id: 'default',
    active: true,
    rate: 1000,
    per: 60,
    quota_max: -1,
    access_rights,
    ...more
  })
  if (status !== 200) throw new Error(`the policy was refused: ${JSON.stringify(body)}`)
}
