import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { request } from 'node:https'
import { join } from 'node:path'
import { execPath } from 'node:process'
import t from 'tap'
import { launch, settings } from '../helpers/process.ts'
import { files, issued, pemOf, root } from './secure.ts'

t.setTimeout(60_000)
const healthy = join(import.meta.dirname, '../../control/healthy.mjs')

const made = issued('a.example')
const paths = files(t, { good: pemOf(made), bare: made.pem, root: root.pem, broken: 'no PEM' })
const start = (http_server_options: object, more: object = {}) =>
  launch(t, { settings: settings({ http_server_options: { use_ssl: true, ...http_server_options }, ...more }) })

t.test('faults of TLS show at the start', async t => {
  for (const [process, status, text] of [
    [start({}), 2, /ssl_certificates is required with use_ssl/],
    [start({ ssl_certificates: [paths.good], min_version: '1.1' }), 2, /min_version/],
    [start({ ssl_certificates: ['/nowhere.pem'] }), 3, /\/nowhere\.pem cannot be read/],
    [start({ ssl_certificates: [paths.broken] }), 3, /broken\.pem cannot be read/],
    [start({ ssl_certificates: [paths.bare] }), 3, /no certificate has a private key/],
    [
      start({ ssl_certificates: [paths.good] }, { ca_file: paths.broken }),
      3,
      /holds no certificate \(gateway\.ca_file\)/
    ],
    [
      start({ ssl_certificates: [paths.good] }, { workers: 2, ca_file: '/nowhere.pem' }),
      3,
      /nowhere\.pem cannot be read/
    ]
  ] as const) {
    t.equal(await process.ended, status)
    t.match(process.stderr(), text)
  }
})

t.test('the ready line tells https', async t => {
  for (const workers of [1, 2]) {
    const process = start({ ssl_certificates: [paths.good] }, { workers, ca_file: paths.root })
    const url = await process.ready
    t.match(url, /^https:/)
    const call = request(`${url}/hello`, { ca: root.pem, servername: 'a.example', agent: false }).end()
    const [answer] = await once(call, 'response')
    answer.resume()
    t.equal(answer.statusCode, 200)
    process.child.kill('SIGTERM')
    t.equal(await process.ended, 0)
  }
})

t.test('the health check of containers asks by TLS', async t => {
  const process = start({ ssl_certificates: [paths.good] })
  const port = new URL(await process.ready).port
  const options = { use_ssl: true, ssl_certificates: [paths.good] }
  const { config } = files(t, { config: JSON.stringify({ gateway: { http_server_options: options } }) })
  for (const [env, status] of [
    [{ SVC_CONFIG: config! }, 0],
    [{ SVC_GATEWAY__HTTP_SERVER_OPTIONS__USE_SSL: 'true' }, 0],
    [{}, 1]
  ] as const) {
    const child = spawn(execPath, [healthy], { env: { SVC_GATEWAY__LISTEN_PORT: port, ...env }, stdio: 'ignore' })
    t.equal((await once(child, 'close'))[0], status, JSON.stringify(env))
  }
})
