import { mkdirSync, writeFileSync } from 'node:fs'
import { fileURLToPath } from 'node:url'
import { parseArgs } from 'node:util'
import { machine } from './load/machine.ts'
import type { Options, Report, Scenario } from './load/scenario.ts'
import { scenarios } from './load/scenarios.ts'
import { markdown, type Table } from './load/table.ts'

const usage = `npm run bench -- NAME [--rounds N] [--seconds S] [--quick] [--save] [--env NAME=VALUE ...]
npm run bench -- --list`

interface Asked {
  readonly scenario: Scenario
  readonly options: Options
  readonly save: boolean
}

const asked = readCommandLine(process.argv.slice(2))
// Asked before the load begins: it tells how busy the machine was already.
const where = machine()
const report = await asked.scenario
  .run(asked.options)
  .catch((cause: Error) => end(1, `${asked.scenario.name} failed: ${cause.message}`))
const { tables, targets, failures } = report
console.log(sections(asked, where, [...tables, ...comparison(targets)]))
for (const failure of failures) console.log(`\nFAILED: ${failure}`)
if (asked.save) console.log(`\nkept in ${keep(asked, report)}`)
process.exit(failures.length > 0 ? 1 : 0)

function readCommandLine(args: string[]): Asked {
  try {
    const { values, positionals } = parseArgs({
      args,
      allowPositionals: true,
      options: {
        list: { type: 'boolean', default: false },
        help: { type: 'boolean', default: false },
        rounds: { type: 'string' },
        seconds: { type: 'string' },
        quick: { type: 'boolean', default: false },
        save: { type: 'boolean', default: false },
        env: { type: 'string', multiple: true, default: [] }
      }
    })
    if (values.list) end(0, scenarios.map(({ name, summary }) => `${name.padEnd(8)} ${summary}`).join('\n'))
    if (values.help) end(0, usage)
    const [name, ...more] = positionals
    if (name === undefined || more.length > 0) throw new Error('one scenario must be named')
    const scenario = scenarios.find(each => each.name === name)
    if (scenario === undefined) {
      throw new Error(`there is no scenario "${name}"; there are: ${scenarios.map(each => each.name).join(', ')}`)
    }
    const options = {
      rounds: whole('rounds', values.rounds ?? (values.quick ? '1' : '5')),
      seconds: whole('seconds', values.seconds ?? (values.quick ? '2' : '10')),
      quick: values.quick,
      env: Object.fromEntries(values.env.map(variable))
    }
    return { scenario, options, save: values.save }
  } catch (cause) {
    return end(2, `${(cause as Error).message}\n\n${usage}`)
  }
}

function whole(name: string, text: string): number {
  const value = Number(text)
  if (!Number.isInteger(value) || value < 1 || value > 3600)
    throw new Error(`--${name} must be a whole number from 1 to 3600`)
  return value
}

function variable(text: string): [string, string] {
  const at = text.indexOf('=')
  if (at < 1) throw new Error(`--env must be NAME=VALUE, not "${text}"`)
  return [text.slice(0, at), text.slice(at + 1)]
}

function end(status: number, text: string): never {
  const stream = status === 0 ? process.stdout : process.stderr
  stream.write(`${text}\n`)
  process.exit(status)
}

function sections({ scenario, options }: Asked, where: readonly string[], tables: readonly Table[]): string {
  const { rounds, seconds, quick, env } = options
  const variables = Object.entries(env).map(([name, value]) => `, ${name}=${value}`)
  const how = `${rounds} ${rounds === 1 ? 'round' : 'rounds'} of ${seconds} s${quick ? ', quick: to try it, not to measure' : ''}${variables.join('')}`
  const head = [`# ${scenario.name}: ${scenario.summary}`, [...where, how].map(line => `- ${line}`).join('\n')]
  return [...head, ...tables.map(markdown)].join('\n\n')
}

function comparison(targets: Report['targets']): Table[] {
  if (targets.length === 0) return []
  const rows = targets.map(({ what, wanted, got, met }) => [
    what,
    wanted,
    got,
    got === 'unknown' ? '–' : met ? 'met' : 'NOT MET'
  ])
  return [{ caption: 'Targets', head: ['', 'wanted', 'got', ''], rows }]
}

/** Writes the result with every round's figures. @returns the file */
function keep(asked: Asked, { tables, details, targets, failures }: Report): string {
  const folder = fileURLToPath(new URL('results/', import.meta.url))
  mkdirSync(folder, { recursive: true })
  const variant = Object.values(asked.options.env).map(value => `-${value.replace(/[^\w.]+/g, '_')}`)
  const file = `${folder}${new Date().toISOString().slice(0, 10)}-${asked.scenario.name}${variant.join('')}.md`
  const failed = failures.map(failure => `\n\nFAILED: ${failure}`).join('')
  writeFileSync(file, `${sections(asked, where, [...tables, ...comparison(targets), ...details])}${failed}\n`)
  return file
}
