import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import t, { type Test } from 'tap'
import { compiled } from '../helpers/compiled.ts'
import { freePorts } from '../helpers/kafkaFiles.ts'
import { folder, launch } from '../helpers/process.ts'

t.setTimeout(120_000)

const text = readFileSync(join(import.meta.dirname, '../../README.md'), 'utf8')
const all = (pattern: RegExp) => [...text.matchAll(pattern)].map(([, found]) => found!)
const block = (has: string) => all(/^```sh\n(.*?)^```/gms).find(each => each.includes(has))!
const file = (name: string) => all(new RegExp(`^\`\`\`json file=${name}\\n(.*?)^\`\`\``, 'gms'))[0]!
const SECRET = 'SECRET=choose-a-long-secret'

t.test('"Authentication" does what it says, from top to bottom', async t => {
  const cwd = folder(t)
  // Of several parts the last one would be here.
  writeFileSync(join(cwd, 'gateway.json'), file('gateway.json'))
  writeFileSync(join(cwd, 'tls.json'), file('tls.json'))
  const start = async (settings: string) => {
    const gateway = launch(t, { cwd, settings: null, args: ['--config', settings], env: FREE_PORT })
    const url = await gateway.ready
    return { ...gateway, url, management: (await gateway.line(({ msg }) => msg === 'ready')).management as string }
  }
  const [port] = await freePorts(1)
  const steps = all(/^```sh authentication\n(.*?)^```/gms).map(step =>
    step.replaceAll('9100', String(port)).replaceAll('node idp.mjs ', `'${process.execPath}' idp.mjs `)
  )
  const [certificates, ...secure] = all(/^```sh tls\n(.*?)^```/gms)
  t.same([steps.length, secure.length], [5, 4])

  const plain = await start('gateway.json')
  const first = [
    `GW=${plain.url}\n${SECRET}`,
    block('> orders.yaml'),
    block('USER_KEY=').replace('http://127.0.0.1:3000', plain.management),
    ...steps,
    certificates!
  ]
  const [, , orders, user, , reports, called, rotated, basic] = (await shell(t, cwd, first)).split('\n----\n')
  t.match(JSON.parse(orders!), { key: 'orders', action: 'added' })
  t.match(JSON.parse(user!), { Status: 'OK' })
  t.match(reports, /"key":"read-reports".*"key":"reports"/s)
  const expected = [
    /"path": "\/today".*\}\n 200\n/,
    /\{"error":"key not authorized: no matching policy found in scope claim"\} 403\n/,
    /\{"error":"Key not authorized"\} 403\n/,
    /\{"error":"Key not authorized: token has expired"\} 401\n/
  ]
  t.match(called, new RegExp(`^\\{.*${expected.map(({ source }) => source).join('')}$`, 's'))
  t.match(rotated, /"path": "\/today".*\}\n 200\n\{"error":"Key not authorized"\} 403\n$/s)
  t.match(basic, /"key":"desk".*"path": "\/tickets".*\}\n 200\n\{"error":"User not authorised"\} 401\n$/s)
  plain.child.kill('SIGTERM')
  t.equal(await plain.ended, 0)

  const tls = await start('tls.json')
  t.match(tls.url, /^https:/)
  const answers = await shell(t, cwd, [
    `${SECRET}\nMG=${tls.management}\nUSER_KEY=$(sed -E 's/.*"Message":"([^"]+)".*/\\1/' user.json)`,
    ...secure.map(step => step.replace('https://localhost:8443', `https://localhost:${new URL(tls.url).port}`))
  ])
  const [, , uploaded, listed, bound, ends] = answers.split('\n----\n')
  t.match(uploaded, /"message":"Certificate added".*"key":"partners"/s)
  t.match(
    listed,
    /"path": "\/stock".*\}\n 200\n\{"error":"Certificate with SHA256 [0-9a-f]{64} not allowed"\} 403\n\{"error":"Client TLS certificate is required"\} 403\n$/s
  )
  t.match(
    bound,
    /"path": "\/orders\/7".*\}\n 200\n\{"error":"Access to this API has been disallowed"\} 401\n\{"error":"Client certificate required"\} 401\n$/s
  )
  t.match(ends, /"message":"Certificate shop is expiring in 19 days.*"state":"expiring","days_remaining":19/s)
  t.match(await tls.line(({ event }) => event === 'CertificateExpiringSoon'), { api_id: 'partners' })
})

const FREE_PORT = { SVC_GATEWAY__LISTEN_PORT: '0' }

/** Runs the steps in one shell and answers what they wrote; what they started ends with the test. */
async function shell(t: Test, cwd: string, steps: readonly string[]): Promise<string> {
  const script = ['set -eu', ...steps].join('\necho; echo ----\n')
  const { PATH, HOME } = process.env
  const child = spawn('sh', ['-c', script], { cwd, env: { PATH, HOME, ...compiled }, detached: true })
  // What it has left behind holds its output open.
  child.on('exit', () => endGroup(child))
  t.teardown(() => endGroup(child))
  let stdout = ''
  let stderr = ''
  child.stdout.on('data', chunk => {
    stdout += chunk
  })
  child.stderr.on('data', chunk => {
    stderr += chunk
  })
  const [code] = await once(child, 'close')
  t.equal(code, 0, stderr)
  return stdout
}

function endGroup({ pid }: ChildProcess): void {
  try {
    process.kill(-pid!, 'SIGKILL')
  } catch {
    // Everything of it has ended.
  }
}
