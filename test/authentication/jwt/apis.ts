import { api, type TestGateway } from '../../helpers/gateway.ts'

/** An API behind tokens; `scheme` are the members of its JWT scheme. */
export function jwtApi(id: string, target: string, scheme: object, more: object = {}): Record<string, unknown> {
  const server = {
    listenPath: { value: `/${id}/`, strip: true },
    authentication: { enabled: true, securitySchemes: { token: { enabled: true, ...scheme } }, ...more }
  }
  return {
    ...api(id, target, { server }),
    components: { securitySchemes: { token: { type: 'http', scheme: 'bearer', bearerFormat: 'JWT' } } }
  }
}

export function externalApi(id: string, target: string, jwt: object, defaultPolicies: readonly string[]) {
  const scheme = { providers: [{ jwt: { enabled: true, ...jwt } }], defaultPolicies }
  return {
    ...jwtApi(id, target, scheme),
    components: { securitySchemes: { token: { type: 'oauth2', flows: {} } } }
  }
}

/** A policy that opens these APIs. */
export async function policy(gw: TestGateway, id: string, apis: readonly string[]): Promise<void> {
  const access_rights = Object.fromEntries(
    apis.map(api => [api, { api_id: api, api_name: api, versions: ['Default'] }])
  )
  const { status, body } = await gw.svc('POST', '/svc/policies', { id, name: id, active: true, access_rights })
  if (status !== 200) throw new Error(`the policy was refused: ${JSON.stringify(body)}`)
}

export async function put(gw: TestGateway, document: unknown): Promise<void> {
  const { status, body } = await gw.svc('POST', '/svc/apis/oas', document)
  if (status !== 200) throw new Error(`the API was refused: ${JSON.stringify(body)}`)
}
