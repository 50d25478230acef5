import { randomBytes } from 'node:crypto'
import { load, readFile } from '../config/load.ts'
import { logTo } from '../config/log.ts'
import type { Settings } from '../config/settings.ts'
import { Invalid } from '../config/validate.ts'
import { systemClock } from '../config/world.ts'
import { assemble, type Gateway } from './assemble.ts'
import { readCommandLine, usage } from './commandLine.ts'
import { generatedSecrets, pastes, type Secrets } from './firstStart.ts'

/** Below this Node does not strip types and has no `node:sqlite`. */
const NEEDED_NODE = 24
const terminal = process.stdout.isTTY === true

if (Number(process.versions.node.split('.')[0]) < NEEDED_NODE) {
  end(
    2,
    `Node ${process.versions.node} is too old for the gateway. "npm start" brings the right one along; node_modules/.bin/node gateway/main.ts uses it.`
  )
}
const { settings, secrets } = settle()
const log = logTo({ terminal, write: line => void process.stdout.write(line) }, systemClock)
assemble({ settings, log, sample: secrets !== null }).then(serve, cause =>
  end(3, `the gateway cannot start: ${cause instanceof Error ? cause.message : String(cause)}`)
)

/** Command line, settings file and environment → settings; ends with status 2 and every fault. */
function settle(): { settings: Settings; secrets: Secrets | null } {
  try {
    const { config, help } = readCommandLine(process.argv.slice(2), process.env)
    if (help) end(0, usage)
    const settings = load({ file: config === null ? null : readFile(config), env: process.env })
    if (config !== null || settings.gateway.secret !== '') return { settings, secrets: null }
    const secrets = generatedSecrets(settings.storage.documents.path, { bytes: randomBytes })
    return { settings: { ...settings, gateway: { ...settings.gateway, secret: secrets.gateway } }, secrets }
  } catch (cause) {
    if (!(cause instanceof Invalid))
      return end(2, `${cause instanceof Error ? cause.message : String(cause)}\n\n${usage}`)
    return end(
      2,
      [
        'the settings have faults:',
        ...cause.faults.map(({ path, message }) => `  ${path === '' ? '' : `${path} `}${message}`)
      ].join('\n')
    )
  }
}

function end(status: number, text: string): never {
  const stream = status === 0 ? process.stdout : process.stderr
  stream.write(text.endsWith('\n') ? text : `${text}\n`)
  process.exit(status)
}

function serve(gateway: Gateway): void {
  if (secrets !== null) tell(secrets, gateway.url)
  log.info('ready', { gateway: gateway.url, pid: process.pid })
  let since = 0
  const stop = (signal: string) => {
    // npm repeats what its process group has already received: a second signal counts only half a second later.
    if (since !== 0) {
      if (systemClock.now() - since >= 500) process.exit(1)
      return
    }
    since = systemClock.now()
    log.info('stopping', { signal })
    gateway.stop().then(
      () => {
        log.info('stopped')
        process.exit(0)
      },
      cause => end(1, `stopping failed: ${String(cause)}`)
    )
  }
  process.on('SIGTERM', () => stop('SIGTERM'))
  process.on('SIGINT', () => stop('SIGINT'))
  process.on('SIGHUP', () => {
    void gateway.reload().then(faults => {
      if (faults.length === 0) log.info('reloaded')
      else log.error('not reloaded: the old state stays', { faults })
    })
  })
}

/** Generated secrets: shown once and on a terminal only; elsewhere the file that holds them is named. */
function tell(secrets: Secrets, url: string): void {
  if (!terminal) return log.info('secrets', { file: secrets.file })
  if (secrets.fresh) process.stdout.write(`\ngateway.secret: ${secrets.gateway} (kept in ${secrets.file})\n`)
  process.stdout.write(`${pastes(url, secrets)}\n`)
}
