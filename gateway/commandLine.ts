/** What the command line may say; anything else is a fault. */
export interface CommandLine {
  /** Path of the settings file; null: embedded defaults. */
  readonly config: string | null
  readonly help: boolean
}

export const usage = `Usage: npm start -- [--config FILE]

  --config FILE   settings (JSON); default: SVC_CONFIG, else embedded defaults on loopback
  --help          this text

Settings also come from the environment: SVC_GATEWAY__LISTEN_PORT=9000 sets gateway.listen_port.
`

/** @throws Error with a line for people */
export function readCommandLine(
  args: readonly string[],
  env: Readonly<Record<string, string | undefined>>
): CommandLine {
  let config = env.SVC_CONFIG === undefined || env.SVC_CONFIG === '' ? null : env.SVC_CONFIG
  let help = false
  for (let i = 0; i < args.length; i++) {
    const arg = args[i]!
    if (arg === '--help' || arg === '-h') help = true
    else if (arg === '--config' && args[i + 1] !== undefined) config = args[++i]!
    else if (arg.startsWith('--config=') && arg.length > 9) config = arg.slice(9)
    else throw new Error(arg === '--config' ? '--config needs a file' : `${arg} is not known here`)
  }
  return { config, help }
}
