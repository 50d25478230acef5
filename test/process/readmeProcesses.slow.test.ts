import { spawn } from 'node:child_process'
import { readFileSync, writeFileSync } from 'node:fs'
import { connect } from 'node:net'
import { join } from 'node:path'
import t, { type Test } from 'tap'
import { compiled } from '../helpers/compiled.ts'
import { haproxyFile, needHaproxy } from '../helpers/haproxy.ts'
import { kafka } from '../helpers/kafka.ts'
import { freePorts } from '../helpers/kafkaFiles.ts'
import { postgres } from '../helpers/postgres.ts'
import { folder, main } from '../helpers/process.ts'
import { redisServer } from '../helpers/redis.ts'

t.setTimeout(200_000)

const text = readFileSync(join(import.meta.dirname, '../../README.md'), 'utf8')
const all = (pattern: RegExp) => [...text.matchAll(pattern)].map(([, found]) => found!)
const cwd = folder(t)
const node = `'${process.execPath}' --disable-warning=ExperimentalWarning`

t.test('"More than one process" does what it says', async t => {
  needHaproxy()
  const [database, redis, broker] = await Promise.all([postgres(t, { version: 17 }), redisServer(t), kafka(t)])
  const [apis, management, [status]] = await Promise.all([prefix(), prefix(), freePorts(1)])
  const [given] = all(/^```json file=cluster.json\n(.*?)^```/gms)
  const settings = given!
    .replace('postgres://svc:choose-one@127.0.0.1:5432/svc', await database.database())
    .replace('redis://127.0.0.1:6379', redis.url)
  writeFileSync(join(cwd, 'cluster.json'), settings)
  const steps = all(/^```sh processes\n(.*?)^```/gms).map(step =>
    step
      .replaceAll('808', apis)
      .replaceAll('300$1', `${management}$1`)
      .replace('127.0.0.1:9092', broker.brokers[0]!)
      .replace('deploy/haproxy.cfg', `'${haproxyFile}'`)
      .replace('npm run --silent gateway --', `${node} '${main}'`)
  )
  t.equal(steps.length, 6)
  // From the parts before it.
  const documents = all(/^(cat > (?:orders|feed)\.yaml <<'END'\n.*?^END\n)/gms)
  const at = (port: string) => `127.0.0.1:${port}`
  const output = await shell(t, [...documents, `GW=http://${at(`${apis}0`)}\nSECRET=choose-a-long-secret`, ...steps], {
    // Redis is here and well, however busy this machine is.
    SVC_GATEWAY__COUNTERS_TIMEOUT_MS: '10000',
    SVC_LISTEN: at(`${apis}0`),
    SVC_GATEWAY_1: at(`${apis}1`),
    SVC_GATEWAY_2: at(`${apis}2`),
    SVC_MANAGEMENT_LISTEN: at(`${management}0`),
    SVC_MANAGEMENT_1: at(`${management}1`),
    SVC_MANAGEMENT_2: at(`${management}2`),
    SVC_STATUS_LISTEN: at(String(status))
  })
  const [, , , , , limited, revoked, streamed, restarted] = output.split('\n----\n')
  t.match(limited, /^\{"key":"orders","status":"ok","action":"added"\}\s*10 200\n\s*10 429\n$/)
  t.match(revoked, /"action":"deleted"\}\s*403\n$/)
  t.match(streamed, /\{"id":8,"title":"Persuasion"\}\n$/)
  t.match(restarted, /^\s*\d+ 200\n$/)
})

/** The first digits of three ports that nobody uses. */
async function prefix(): Promise<string> {
  for (;;) {
    const [port] = await freePorts(1)
    const digits = String(port).slice(0, -1)
    const used = await Promise.all(['0', '1', '2'].map(last => isUsed(Number(digits + last))))
    if (!used.includes(true)) return digits
  }
}

function isUsed(port: number): Promise<boolean> {
  return new Promise(resolve => {
    const socket = connect(port, '127.0.0.1', () => {
      socket.destroy()
      resolve(true)
    })
    socket.on('error', () => resolve(false))
  })
}

/** Runs the steps in one shell and answers what they wrote; what they started ends with the test. */
async function shell(t: Test, steps: readonly string[], env: Record<string, string>): Promise<string> {
  const script = ['set -eu', ...steps].join('\necho; echo ----\n')
  const { PATH, HOME } = process.env
  const child = spawn('sh', ['-c', script], { cwd, env: { PATH, HOME, ...compiled, ...env }, detached: true })
  t.teardown(() => {
    try {
      process.kill(-child.pid!, 'SIGKILL')
    } catch {
      // Everything of it has ended.
    }
  })
  let stdout = ''
  let stderr = ''
  child.stdout.on('data', chunk => {
    stdout += chunk
  })
  child.stderr.on('data', chunk => {
    stderr += chunk
  })
  const code = await new Promise(resolve => child.on('exit', resolve))
  t.equal(code, 0, stderr)
  return stdout
}
