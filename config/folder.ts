import { existsSync, mkdirSync } from 'node:fs'
import { dirname } from 'node:path'

/**
 * Makes a folder and those above it, readable for this user alone. Node's own `recursive` goes round for ever where the
 * system says of a folder that is there that it is not (`/proc`).
 * @throws Error in one line that names the setting
 */
export function makeFolder(path: string, setting: string): void {
  try {
    make(path)
  } catch (cause) {
    throw new Error(`the folder ${path} cannot be made: ${(cause as NodeJS.ErrnoException).code} (${setting})`, {
      cause
    })
  }
}

function make(path: string): void {
  try {
    mkdirSync(path, { mode: 0o700 })
  } catch (cause) {
    const { code } = cause as NodeJS.ErrnoException
    if (code === 'EEXIST') return
    const above = dirname(path)
    if (code !== 'ENOENT' || above === path || existsSync(above)) throw cause
    make(above)
    mkdirSync(path, { mode: 0o700 })
  }
}
