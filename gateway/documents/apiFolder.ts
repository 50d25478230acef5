import { createHash } from 'node:crypto'
import { join } from 'node:path'
import { Invalid } from '../../config/validate.ts'
import { parseJson, parseYaml } from '../../config/yaml.ts'
import type { Files } from './files.ts'

/** API documents in a folder (`gateway.app_path`). */

const MAX_FILE = 10 * 1024 * 1024

export interface ApiFile {
  /** Tells one content from another. */
  readonly stamp: string
  /** Milliseconds since the epoch. */
  readonly updated: number
  /** @throws Invalid */
  readonly document: () => unknown
}

/** Paths of its documents, sorted; '' has none. What is wrong is added to `faults`. */
export async function filesOf(files: Files, folder: string, faults: string[]): Promise<string[]> {
  if (folder === '') return []
  try {
    const names = await files.names(folder)
    if (names === null) throw new Error('is no folder')
    return names
      .filter(name => /^[^.].*\.(?:json|ya?ml)$/.test(name))
      .sort()
      .map(name => join(folder, name))
  } catch (cause) {
    faults.push(`${folder}: ${(cause as Error).message}`)
    return []
  }
}

/** What `read` makes of a file; null, and the faults are added to `faults`. */
export async function readApiFile<T>(
  files: Files,
  file: string,
  faults: string[],
  read: (given: ApiFile) => T
): Promise<T | null> {
  try {
    const { text, updated } = await files.read(file, MAX_FILE)
    return read({
      stamp: createHash('sha256').update(text).digest('hex'),
      updated,
      document: () => (file.endsWith('.json') ? parseJson(text, 'exact') : parseYaml(text, 'exact'))
    })
  } catch (cause) {
    if (!(cause instanceof Invalid)) faults.push(`${file}: ${(cause as Error).message}`)
    else
      for (const { path, message } of cause.faults) faults.push(`${file}: ${path === '' ? '' : `${path} `}${message}`)
    return null
  }
}
