import { randomBytes } from 'node:crypto'
import { fstatSync, writeSync } from 'node:fs'
import { linesTo, toFile, toStream } from '../config/lines.ts'
import { load, readFile } from '../config/load.ts'
import { logTo } from '../config/log.ts'
import type { Settings } from '../config/settings.ts'
import { type Fault, Invalid } from '../config/validate.ts'
import { systemClock } from '../config/world.ts'
import { assemble, type Gateway } from './assemble.ts'
import { readCommandLine, usage } from './commandLine.ts'
import {
  type AdministratorKey,
  administratorKey,
  generatedSecrets,
  pastes,
  readablePastes,
  type Secrets
} from './firstStart.ts'

/** npm repeats what its process group has already received: a second signal counts only so much later. */
const REPEATED_MS = 500
/** Last lines have so long to leave. */
const LAST_LINES_MS = 500

const STATUS = { ended: 0, fault: 1, settings: 2, start: 3 } as const

const { settings, fromFile } = settle()
const terminal = process.stdout.isTTY === true
const output = linesTo(standardOutput(), cause => say(`standard output: ${cause}`))
const log = logTo(output, terminal ? 'terminal' : 'json', systemClock)

// Whatever nobody caught leaves a state that nobody knows. What was acknowledged is safe; a supervisor starts anew.
process.on('uncaughtException', (cause: unknown) => {
  log.error('fault: the process ends', {
    cause: String(cause),
    stack: cause instanceof Error ? cause.stack : undefined
  })
  void leave(STATUS.fault)
})

let running: Gateway | null = null
let stopping: number | null = null
takeOver('SIGTERM', () => stop('SIGTERM'))
takeOver('SIGINT', () => stop('SIGINT'))
takeOver('SIGHUP', () => void reload())

try {
  const secrets = fromFile || settings.gateway.secret !== '' ? null : generated(settings)
  const made: AdministratorKey[] = []
  const administrator = () => {
    made.push(administratorKey(settings.storage.documents.path, { bytes: randomBytes }))
    return made[0]!.accessKey
  }
  running = await assemble({
    settings: withSecret(settings, secrets),
    log,
    sample: !fromFile,
    output,
    ...(fromFile ? {} : { administrator })
  })
  if (stopping !== null) await finish(running)
  if (!fromFile) tell(running, secrets, made[0] ?? null)
  const { url, managementUrl, threads } = running
  log.info('ready', {
    gateway: url,
    ...(managementUrl === null ? {} : { management: managementUrl }),
    ...(threads === null ? {} : { threads: threads.count }),
    pid: process.pid
  })
} catch (cause) {
  end(STATUS.start, `the gateway cannot start: ${cause instanceof Error ? cause.message : String(cause)}`)
}

/** Command line, settings file and environment → settings; ends with every fault. */
function settle(): { settings: Settings; fromFile: boolean } {
  try {
    const { config, help } = readCommandLine(process.argv.slice(2), process.env)
    if (help) end(STATUS.ended, usage)
    const { file, faults } = config === null ? { file: null, faults: [] } : read(config)
    return { settings: load({ file, env: process.env, faults }), fromFile: file !== null }
  } catch (cause) {
    if (!(cause instanceof Invalid))
      return end(STATUS.settings, `${cause instanceof Error ? cause.message : String(cause)}\n\n${usage}`)
    const faults = cause.faults.map(({ path, message }) => `  ${path === '' ? '' : `${path} `}${message}`)
    return end(STATUS.settings, ['the settings have faults:', ...faults].join('\n'))
  }
}

/** A file that cannot be read hides no fault of the environment. */
function read(path: string): { file: string | null; faults: readonly Fault[] } {
  try {
    return { file: readFile(path), faults: [] }
  } catch (cause) {
    if (!(cause instanceof Invalid)) throw cause
    return { file: null, faults: cause.faults }
  }
}

function generated({ storage }: Settings): Secrets {
  return generatedSecrets(storage.documents.path, { bytes: randomBytes })
}

function withSecret(settings: Settings, secrets: Secrets | null): Settings {
  return secrets === null ? settings : { ...settings, gateway: { ...settings.gateway, secret: secrets.gateway } }
}

/** Pipes, sockets and terminals take what they can; files and devices are written off the request thread. */
function standardOutput() {
  const kind = fstatSync(1)
  return kind.isFile() || (kind.isCharacterDevice() && !terminal) ? toFile(() => 1) : toStream(process.stdout)
}

/** From whoever answered the signal while the modules were loading (`config/runtime.mjs`), without a gap. */
function takeOver(signal: NodeJS.Signals, answer: () => void): void {
  const early = process.listeners(signal)
  process.on(signal, answer)
  for (const listener of early) process.off(signal, listener)
}

function stop(signal: string): void {
  if (stopping !== null) {
    if (systemClock.now() - stopping >= REPEATED_MS) process.exit(STATUS.fault)
    return
  }
  stopping = systemClock.now()
  log.info('stopping', { signal })
  if (running !== null) void finish(running)
}

async function finish(gateway: Gateway): Promise<void> {
  try {
    await gateway.stop()
    log.info('stopped')
    await leave(STATUS.ended)
  } catch (cause) {
    log.error('stopping failed', { cause: String(cause) })
    await leave(STATUS.fault)
  }
}

async function leave(status: number): Promise<never> {
  await output.settled(LAST_LINES_MS)
  process.exit(status)
}

async function reload(): Promise<void> {
  // Whoever is still starting reads everything anyway.
  if (running === null || stopping !== null) return
  try {
    const faults = await running.reload()
    if (faults.length === 0) log.info('reloaded')
    else log.error('not reloaded: the old state stays', { faults })
  } catch (cause) {
    // The store is away: what is in memory goes on.
    log.error('not reloaded: the old state stays', { cause: cause instanceof Error ? cause.message : String(cause) })
  }
}

/**
 * Without a settings file: what was generated, shown once and on a terminal only, and three commands to try.
 * @param made the access key of the first management user, when it was made just now
 */
function tell(gateway: Gateway, secrets: Secrets | null, made: AdministratorKey | null): void {
  const commands = gateway.hasSample ? pastes({ gateway: gateway.url, control: gateway.controlUrl, secrets }) : null
  const file = secrets?.file ?? made?.file
  if (!terminal) {
    if (file !== undefined) log.info('secrets', { file })
    if (commands !== null) log.info('three commands to try', { commands })
    return
  }
  if (secrets?.fresh) output.write(`\ngateway.secret: ${secrets.gateway} (kept in ${secrets.file})\n`)
  if (made !== null) output.write(`admin.access_key: ${made.accessKey} (kept in ${made.file})\n`)
  if (commands !== null) output.write(readablePastes(commands))
}

function end(status: number, text: string): never {
  say(text, status === 0 ? 1 : 2)
  process.exit(status)
}

/** At once, whatever becomes of the process; a reader that is gone is no reason to fail. */
function say(text: string, to: 1 | 2 = 2): void {
  try {
    writeSync(to, text.endsWith('\n') ? text : `${text}\n`)
  } catch {
    return
  }
}
