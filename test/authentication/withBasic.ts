import { api, rights, type TestGateway } from '../helpers/gateway.ts'

/** An API behind user names and passwords: members of the scheme, and of `server.authentication`. */
export function withBasic(
  id: string,
  url: string,
  scheme: object = {},
  authentication: object = {},
  more: object = {}
) {
  const document: any = api(id, url, {
    server: {
      authentication: { enabled: true, ...authentication, securitySchemes: { users: { enabled: true, ...scheme } } }
    },
    ...more
  })
  document.components.securitySchemes = { users: { type: 'http', scheme: 'basic' } }
  return document
}

/** Makes, or changes, a user who may use these APIs. */
export async function user(gw: TestGateway, name: string, password: string, ids: string[], more: object = {}) {
  const body = { ...rights(...ids), basic_auth_data: { password }, ...more }
  const answer = await gw.api('POST', `/api/apis/keys/basic/${encodeURIComponent(name)}`, body)
  if (answer.status !== 200) throw new Error(`the user was refused: ${JSON.stringify(answer.body)}`)
}

/** Value of `Authorization` (RFC 7617 §2). */
export function basicly(name: string, password: string): string {
  return `Basic ${Buffer.from(`${name}:${password}`).toString('base64')}`
}
