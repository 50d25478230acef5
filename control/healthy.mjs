// What a container's health check runs (Dockerfile): status 0 while the gateway of these settings answers GET /hello,
// 1 otherwise. Restarting does not bring a database back, so /ready is for load balancers and not looked at here.
import { readFileSync } from 'node:fs'
import { get } from 'node:http'
import { get as getSecure } from 'node:https'

const ANSWER_MS = 2_500

try {
  const { SVC_CONFIG: file, SVC_GATEWAY__LISTEN_ADDRESS: address, SVC_GATEWAY__LISTEN_PORT: port } = process.env
  const { SVC_GATEWAY__HTTP_SERVER_OPTIONS__USE_SSL: tls } = process.env
  const { gateway = {} } = file ? JSON.parse(readFileSync(file, 'utf8')) : {}
  const host = (address ?? gateway.listen_address ?? '').replace(/^\[(.*)\]$/, '$1')
  const reached = ['', '0.0.0.0', '::'].includes(host) ? '127.0.0.1' : host.includes(':') ? `[${host}]` : host
  const secure = tls === undefined ? gateway.http_server_options?.use_ssl === true : tls === 'true'
  const url = `${secure ? 'https' : 'http'}://${reached}:${port ?? gateway.listen_port ?? 8080}/hello`
  const status = await new Promise((resolve, reject) => {
    // Whether the gateway lives is asked, by itself: its certificate is for other names.
    const options = { signal: AbortSignal.timeout(ANSWER_MS), agent: false, rejectUnauthorized: false }
    const answered = answer => resolve(answer.resume().statusCode)
    ;(secure ? getSecure : get)(url, options, answered).on('error', reject)
  })
  if (status !== 200) throw new Error(`${url} answered ${status}`)
} catch (cause) {
  console.error(`not healthy: ${cause.cause?.message ?? cause.message}`)
  process.exitCode = 1
}
