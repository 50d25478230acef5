import { spawn } from 'node:child_process'
import { globSync } from 'node:fs'
import { availableParallelism } from 'node:os'
import { join } from 'node:path'
import { compiled } from './helpers/compiled.ts'

/**
 * Runs every test file as a program of its own (each prints TAP) and ends with one line, `N passed, N failed`. Faults
 * and floods (`*.slow.test.ts`) come last; of these, one that bounds how long something takes has the machine for itself.
 * Nothing run, or something skipped, is a failure.
 * Arguments name files to run instead of all.
 */

const FILE_MS = 240_000
/** Begun first, so that nothing long is left for one core at the end; those that mostly wait stand beside one that does not. */
const LONGEST = [
  'test/control/badInput.test.ts',
  'test/streams/acceptance.test.ts',
  'test/streams/brokerKafka.test.ts',
  'test/store/storePostgres17.test.ts',
  'test/store/storePostgres13.test.ts',
  'test/control/commandLine.test.ts',
  'test/process/stop.test.ts',
  'test/process/start.test.ts'
]
/** Slow files whose bounds are far off: as many at once as quick ones, those that mostly wait beside one that does not. */
const TIMELESS = [
  'test/streams/brokerKafkaFaults.slow.test.ts',
  'test/process/rolling.slow.test.ts',
  'test/streams/gateways.slow.test.ts',
  'test/process/kill.slow.test.ts',
  'test/process/readmeProcesses.slow.test.ts',
  'test/threads/threads.slow.test.ts',
  'test/store/postgresProcess.slow.test.ts',
  'test/proxy/upgrade.slow.test.ts',
  'test/counters/countersRedis.slow.test.ts'
]
const root = join(import.meta.dirname, '..')

interface Tally {
  passed: number
  failed: number
  skipped: number
}

const named = process.argv.slice(2)
const files = (named.length > 0 ? named : globSync('test/**/*.test.ts', { cwd: root })).sort()
const slow = files.filter(file => file.endsWith('.slow.test.ts'))
const alone = slow.filter(file => !TIMELESS.includes(file))
const quick = files.filter(file => !slow.includes(file))
const sum: Tally = { passed: 0, failed: 0, skipped: 0 }
const started = Date.now()

// Most files wait for something now and then.
await all(ordered(quick, LONGEST), availableParallelism() + 1)
await all(
  TIMELESS.filter(file => slow.includes(file)),
  availableParallelism()
)
await all(alone, 1)
console.log(`${files.length} files, ${Math.round((Date.now() - started) / 1000)} s`)
console.log(`${sum.passed} passed, ${sum.failed} failed${sum.skipped > 0 ? `, ${sum.skipped} skipped` : ''}`)
process.exitCode = sum.failed > 0 || sum.skipped > 0 || sum.passed === 0 ? 1 : 0

/** Those of `first` in its order, then the others. */
function ordered(queue: readonly string[], first: readonly string[]): string[] {
  return [...first.filter(file => queue.includes(file)), ...queue.filter(file => !first.includes(file))]
}

async function all(queue: readonly string[], atOnce: number): Promise<void> {
  const left = [...queue]
  await Promise.all(
    Array.from({ length: atOnce }, async () => {
      for (let file = left.shift(); file !== undefined; file = left.shift()) add(file, await run(file))
    })
  )
}

interface Run {
  readonly output: string
  readonly status: number | null
  readonly ms: number
}

function run(file: string): Promise<Run> {
  return new Promise(resolve => {
    const from = Date.now()
    const child = spawn(process.execPath, ['--disable-warning=ExperimentalWarning', file], {
      cwd: root,
      env: { ...process.env, ...compiled },
      stdio: ['ignore', 'pipe', 'pipe']
    })
    let output = ''
    const take = (chunk: Buffer) => {
      output += chunk.toString()
    }
    child.stdout.on('data', take)
    child.stderr.on('data', take)
    const timer = setTimeout(() => {
      output += `\nnot ok - ${file} took longer than ${FILE_MS / 1000} s\n`
      child.kill('SIGKILL')
    }, FILE_MS)
    child.on('close', status => {
      clearTimeout(timer)
      resolve({ output, status, ms: Date.now() - from })
    })
  })
}

function add(file: string, { output, status, ms }: Run): void {
  const lines = output.split('\n')
  const tally: Tally = { passed: 0, failed: 0, skipped: 0 }
  for (const line of lines) {
    // A skip or a todo anywhere hides something; passes and failures count where a file's own tests stand.
    if (/^\s*(?:not )?ok\b.*# (?:SKIP|TODO)/i.test(line)) tally.skipped++
    else if (line.startsWith('ok ')) tally.passed++
    else if (line.startsWith('not ok')) tally.failed++
  }
  if (status !== 0 && tally.failed === 0) tally.failed++
  if (tally.passed + tally.failed + tally.skipped === 0) tally.failed++
  sum.passed += tally.passed
  sum.failed += tally.failed
  sum.skipped += tally.skipped
  const good = tally.failed + tally.skipped === 0
  console.log(
    `${good ? 'ok    ' : 'FAILED'} ${file} (${tally.passed} passed${tally.failed > 0 ? `, ${tally.failed} failed` : ''}, ${(ms / 1000).toFixed(1)} s)`
  )
  if (!good) console.log(output.slice(-20_000))
}
