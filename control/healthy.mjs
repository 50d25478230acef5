// What a container's health check runs (Dockerfile): status 0 while the gateway of these settings answers GET /hello,
// 1 otherwise. Restarting does not bring a database back, so /ready is for load balancers and not looked at here.
import { readFileSync } from 'node:fs'

const ANSWER_MS = 2_500

try {
  const { SVC_CONFIG: file, SVC_GATEWAY__LISTEN_ADDRESS: address, SVC_GATEWAY__LISTEN_PORT: port } = process.env
  const { gateway = {} } = file ? JSON.parse(readFileSync(file, 'utf8')) : {}
  const host = (address ?? gateway.listen_address ?? '').replace(/^\[(.*)\]$/, '$1')
  const reached = ['', '0.0.0.0', '::'].includes(host) ? '127.0.0.1' : host.includes(':') ? `[${host}]` : host
  const url = `http://${reached}:${port ?? gateway.listen_port ?? 8080}/hello`
  const { status } = await fetch(url, { signal: AbortSignal.timeout(ANSWER_MS) })
  if (status !== 200) throw new Error(`${url} answered ${status}`)
} catch (cause) {
  console.error(`not healthy: ${cause.cause?.message ?? cause.message}`)
  process.exitCode = 1
}
