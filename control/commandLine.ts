import { parseArgs } from 'node:util'
import { CallFailed, client } from './cli/client.ts'
import { Faulty, type Given, readDocuments } from './cli/documents.ts'
import { exportAll } from './cli/export.ts'
import { apply, type Change, plan, told } from './cli/plan.ts'
import { validate } from './cli/validate.ts'

/** `npm run svc -- COMMAND`: documents in files, brought to a running gateway through its management interface, and keys from store to store. */

const usage = `Usage: npm run svc -- COMMAND [options]

  plan FILE…       what apply would change, by meaning; writes nothing
  apply FILE…      makes the gateway's documents those of the files; a second run says "nothing to do"
  export [FOLDER]  writes APIs (with what secrets they hold), policies, assets and named keys (without theirs) as files;
                   default: svc-export
  validate FILE…   checks files without a gateway, and says which operations are reached without a credential
  move-keys        copies all keys from the documents to Redis or back, before storage.keys is changed; may be repeated

  --url URL        the management interface; default: SVC_URL, else http://127.0.0.1:3000
  --key KEY        access key of a management user; default: SVC_KEY
  --help           this text

  of move-keys:
  --config FILE    the gateway's settings, which name both stores; default: SVC_CONFIG
  --to PLACE       redis or documents
  --mirror         makes the keys there those that come: replaces other content, removes keys that are only there
                   (revoked since the last copy); for the last run, with the gateways stopped
  --overwrite      replaces keys that are there with other content; removes none
  --delete         deletes what has arrived where it came from

FILE: YAML or JSON, or a folder of them. An OpenAPI document with x-svc-api-gateway (its info.id names the API), or
asset:, policy:, key: with an id each, or lists of them: assets:, policies:, keys:. apply deletes nothing.
`

/** 0: done; 1: a call failed, or keys were left; 2: wrong arguments or files. */
const STATUS = { done: 0, failed: 1, wrong: 2 } as const

const ofMove = ['config', 'to', 'mirror', 'overwrite', 'delete'] as const
const options = {
  url: { type: 'string' },
  key: { type: 'string' },
  help: { type: 'boolean', short: 'h' },
  config: { type: 'string' },
  to: { type: 'string' },
  mirror: { type: 'boolean' },
  overwrite: { type: 'boolean' },
  delete: { type: 'boolean' }
} as const

class Wrong extends Error {}

try {
  process.exitCode = await main(process.argv.slice(2))
} catch (cause) {
  const text = cause instanceof Error ? cause.message : String(cause)
  process.stderr.write(cause instanceof Wrong ? `${text}\n\n${usage}` : `${text}\n`)
  process.exitCode = cause instanceof Wrong || cause instanceof Faulty ? STATUS.wrong : STATUS.failed
  const isOfSystem = cause instanceof Error && 'syscall' in cause
  if (!(cause instanceof Wrong || cause instanceof Faulty || cause instanceof CallFailed || isOfSystem)) throw cause
}

async function main(args: string[]): Promise<number> {
  const { values, positionals } = parsed(args)
  const [command, ...files] = positionals
  if (values.help || command === undefined || command === 'help') {
    if (!values.help && command === undefined) throw new Wrong('a command is missing')
    process.stdout.write(usage)
    return STATUS.done
  }
  if (command === 'move-keys') return move(values, files)
  for (const option of ofMove) if (values[option] !== undefined) throw new Wrong(`${command} knows no --${option}`)
  const gateway = () => client(values.url ?? process.env.SVC_URL ?? 'http://127.0.0.1:3000', accessKey(values.key))
  if (command === 'export') {
    if (files.length > 1) throw new Wrong('export takes one folder')
    const folder = files[0] ?? 'svc-export'
    const { api, policy, asset, key, left } = await exportAll(folder, gateway())
    say(`${folder}: ${api} APIs, ${policy} policies, ${asset} assets, ${key} keys`)
    if (left > 0) say(`left out: ${left} users with a password, which no file may hold`)
    return STATUS.done
  }
  if (command !== 'plan' && command !== 'apply' && command !== 'validate') throw new Wrong(`${command} is no command`)
  if (files.length === 0) throw new Wrong(`${command} needs files or folders`)
  if (command === 'validate') {
    validateFiles(files)
    return STATUS.done
  }
  const given = readDocuments(files)
  const { faults } = validate(given)
  if (faults.length > 0) throw new Faulty(faults)
  const called = gateway()
  const changes = await plan(given, called)
  if (changes.length === 0) say('nothing to do')
  else if (command === 'plan') say([...changes.map(told), summary(changes)].join('\n'))
  else {
    for (const [done, change] of changes.entries()) {
      await apply(change, called).catch(cause => {
        if (!(cause instanceof CallFailed)) throw cause
        const { kind, id } = change.given
        throw new CallFailed(`${done} of ${changes.length} changes are done; ${kind} ${id} is not: ${cause.message}`)
      })
      say(told(change))
    }
    say(`done: ${summary(changes)}`)
  }
  return STATUS.done
}

/** @throws Faulty with every fault, after what is to be said of the documents without */
function validateFiles(files: readonly string[]): void {
  let given: readonly Given[]
  try {
    given = readDocuments(files)
  } catch (cause) {
    if (!(cause instanceof Faulty)) throw cause
    tell(validate(files.flatMap(alone)).notes)
    throw cause
  }
  const { faults, notes } = validate(given)
  if (faults.length === 0) say(`${given.length} documents are valid`)
  tell(notes)
  if (faults.length > 0) throw new Faulty(faults)
}

/** What a file or folder holds, whatever is wrong with the others; nothing where it has faults itself. */
function alone(file: string): readonly Given[] {
  try {
    return readDocuments([file])
  } catch (cause) {
    if (!(cause instanceof Faulty)) throw cause
    return []
  }
}

function tell(notes: readonly string[]): void {
  if (notes.length > 0) say(notes.join('\n'))
}

function parsed(args: string[]) {
  const { tokens, ...given } = parsedAsGiven(args)
  const seen = new Set<string>()
  for (const token of tokens) {
    if (token.kind !== 'option') continue
    if (seen.has(token.name)) throw new Wrong(`--${token.name} is given twice`)
    seen.add(token.name)
  }
  return given
}

function parsedAsGiven(args: string[]) {
  try {
    return parseArgs({ args, allowPositionals: true, options, tokens: true })
  } catch (cause) {
    throw new Wrong(cause instanceof Error ? cause.message : String(cause))
  }
}

async function move(values: ReturnType<typeof parsed>['values'], more: readonly string[]): Promise<number> {
  if (more.length > 0) throw new Wrong('move-keys takes no files')
  for (const option of ['url', 'key'] as const)
    if (values[option] !== undefined) throw new Wrong(`move-keys knows no --${option}: it opens the stores by itself`)
  const {
    config = process.env.SVC_CONFIG ?? '',
    to,
    mirror = false,
    overwrite = false,
    delete: remove = false
  } = values
  if (config === '') throw new Wrong('move-keys needs the settings file: --config FILE')
  if (to !== 'redis' && to !== 'documents') throw new Wrong('move-keys needs --to redis or --to documents')
  // With the stores come packages that no other command needs to wait for.
  const { moveKeys } = await import('./cli/moveKeys.ts')
  return (await moveKeys({ config, to, overwrite, mirror, remove }, say)) ? STATUS.done : STATUS.failed
}

function accessKey(given: string | undefined): string {
  const key = given ?? process.env.SVC_KEY ?? ''
  if (key === '') throw new Wrong('an access key is missing: --key or SVC_KEY')
  if (!/^[\x21-\x7e]+$/.test(key)) throw new Wrong('the access key holds characters that none has')
  return key
}

function summary(changes: readonly Change[]): string {
  const count = (does: Change['does']) => changes.filter(change => change.does === does).length
  return `${count('create')} to create, ${count('update')} to update`
}

function say(text: string): void {
  process.stdout.write(`${text}\n`)
}
