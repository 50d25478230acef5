import { spawnSync } from 'node:child_process'
import { readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import t from 'tap'
import { folder, launch } from '../helpers/process.ts'

t.setTimeout(120_000)

const root = join(import.meta.dirname, '../..')
const text = readFileSync(join(root, 'README.md'), 'utf8')
const blocks = (fence: RegExp) => [...text.matchAll(fence)].map(([, ...groups]) => groups as string[])

t.test('the commands of the README do what it says, from top to bottom', async t => {
  const cwd = folder(t)
  for (const [name, content] of blocks(/^```json file=(\S+)\n(.*?)^```/gms)) writeFileSync(join(cwd, name!), content!)
  const gateway = launch(t, {
    cwd,
    settings: null,
    args: ['--config', 'gateway.json'],
    env: { SVC_GATEWAY__LISTEN_PORT: '0' }
  })
  const url = await gateway.ready
  const { management } = await gateway.line(({ msg }) => msg === 'ready')
  const node = `'${process.execPath}' --disable-warning=ExperimentalWarning`
  const steps = blocks(/^```sh\n(.*?)^```/gms).map(([step]) =>
    step!
      .replace('http://127.0.0.1:8080', url)
      .replace('http://127.0.0.1:3000', management)
      .replaceAll('npm run --silent svc --', `${node} '${join(root, 'control/commandLine.ts')}'`)
  )
  t.ok(steps.length >= 10)
  const script = ['set -eu', ...steps].join('\necho; echo ----\n')
  const { status, stdout, stderr } = spawnSync('sh', ['-c', script], { cwd, encoding: 'utf8' })
  t.equal(status, 0, stderr)
  const [, , described, made, called, looked, policies, ...managed] = stdout.split('\n----\n')
  t.same(JSON.parse(described!), { key: 'orders', status: 'ok', action: 'added' })
  t.match(JSON.parse(made!), { key: /^svc_/, status: 'ok', action: 'added' })
  t.match(called, /"path": "\/orders\/7".*\n\}\n401\n$/s)
  t.match(looked, /"quota_remaining":9999/)
  t.match(policies, /"key":"basic".*"key":"svc_/s)
  const [user, imported, safely, audited, files, feed, streamed] = managed
  t.match(JSON.parse(user!), { Status: 'OK', Meta: { email_address: 'ada@example.com', active: true } })
  t.match(
    imported,
    /"Message":"API created".*"ID":"books","report":\[.*"line":\d+.*\{"id":7,"title":"Emma"\}.*request validation error/s
  )
  t.match(safely, /ETag: "1".*"Message":"Data updated".*"revision":2.*"Message":"Data updated"/is)
  t.match(audited, /"audit_logs":\[.*"diff":/s)
  t.match(JSON.parse(feed!), { key: 'feed', status: 'ok', action: 'added' })
  t.match(
    streamed,
    /\{"topic":"orders","partition":0,"offset":0,.*\{"id":7,"title":"Emma"\}.*"stream":"in".*"produced":1,.*"stream":"out".*"delivered":1,/s
  )
  t.match(files, /\+ policy gold.*1 to create, 0 to update\n.*done: 1 to create, 0 to update\nnothing to do\n/s)
})

t.test('the README leads to files that are there', async t => {
  for (const [target] of blocks(/\]\(([^)#:]+)\)/g)) t.ok(readFileSync(join(root, target!), 'utf8').length > 0, target!)
})
