import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { gateway, generous } from './contenders.ts'
import { basicOf, basicScheme, createUser, USER } from './credentials.ts'
import { generate, type Load, type Measured } from './generator.ts'
import { folder, type Running } from './processes.ts'
import { warmUp } from './rounds.ts'
import { type Options, progress, type Scenario, target } from './scenario.ts'
import { figure, median } from './table.ts'
import { startUpstream } from './upstream.ts'

const rate = 1_000
/** Wrong ones, all of one length. */
const GUESSES = 50_000
/** Clients that guess, each as fast as it is answered. */
const GUESSERS = 32

interface Round {
  readonly alone: Measured
  readonly beside: Measured
  readonly flood: Measured
}

export const wrongPasswords: Scenario = {
  name: 'wrong-passwords',
  summary: 'requests with a key at 1,000/s beside a flood of wrong passwords',
  async run(options) {
    const upstream = await startUpstream()
    const rounds: Round[] = []
    for (let i = 1; i <= options.rounds; i++) {
      const round = await measure(upstream, options)
      rounds.push(round)
      const { alone, beside, flood } = round
      const guesses = figure(flood.requests / flood.seconds)
      progress(
        `round ${i}/${options.rounds}: p99 ${figure(alone.p99, 2)} → ${figure(beside.p99, 2)} ms, ${guesses} guesses/s`
      )
    }
    await upstream.stop()
    const failed = rounds.reduce((sum, { beside }) => sum + beside.refused + beside.broken, 0)
    const let_in = rounds.reduce((sum, { flood }) => sum + flood.requests - flood.refused - flood.broken, 0)
    return {
      tables: [
        {
          caption: `Requests with a key at ${figure(rate)}/s; ${GUESSERS} clients guess passwords of one user`,
          head: ['round', 'p50 alone ms', 'p99 alone', 'p50 beside', 'p99 beside', 'guesses/s'],
          rows: rounds.map(({ alone, beside, flood }, i) => [
            String(i + 1),
            ...[alone.p50, alone.p99, beside.p50, beside.p99].map(ms => figure(ms, 2)),
            figure(flood.requests / flood.seconds)
          ])
        }
      ],
      details: [],
      targets: [target('p99 of the others', median(rounds.map(({ beside }) => beside.p99)), '<=', 20, ' ms')],
      failures: [
        ...(failed > 0 ? [`${figure(failed)} requests with a key failed`] : []),
        ...(let_in > 0 ? [`${figure(let_in)} wrong passwords were let in`] : [])
      ]
    }
  }
}

async function measure(upstream: Running, options: Options): Promise<Round> {
  const temp = folder()
  const guesses = Array.from({ length: GUESSES }, (_, i) => basicOf(USER, `wrong-${1_000_000 + i}`))
  const file = join(temp.path, 'guesses')
  writeFileSync(file, `${guesses.join('\n')}\n`)
  const started = await gateway({
    name: 'gateway',
    env: options.env,
    key: generous,
    apis: url => [
      { id: 'bench', listenPath: '/bench/', upstream: url, access: 'key' },
      { id: 'users', listenPath: '/users/', upstream: url, access: basicScheme }
    ]
  }).start(upstream)
  await createUser(started.svc, 'users')
  const load: Load = { ...started.load, connections: 16, rate, seconds: options.seconds }
  const tokens = { file, length: guesses[0]!.length, count: GUESSES, order: 'in turn' } as const
  const guessing = { url: `${started.running.url}/users/`, connections: GUESSERS, tokens, seconds: options.seconds + 4 }
  await generate({ ...load, seconds: warmUp(options) })
  const alone = await generate(load)
  const flooded = generate(guessing)
  const beside = await generate(load)
  const flood = await flooded
  await started.stop()
  temp.remove()
  return { alone, beside, flood }
}
