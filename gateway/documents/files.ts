import { readdir, readFile, stat } from 'node:fs/promises'

export interface TextFile {
  readonly text: string
  /** Milliseconds since the epoch. */
  readonly updated: number
}

/** Where documents of folders are read from. */
export interface Files {
  /** Names in a folder, in any order; null: it is a file. @throws Error */
  names(path: string): Promise<readonly string[] | null>
  /** @param most bytes @throws Error */
  read(path: string, most?: number): Promise<TextFile>
  /** They count already, elsewhere: what has come into the store against them since then gives way. */
  readonly areAccepted: boolean
}

/** What a reading found, by path; can be posted to threads. */
export interface FilesRead {
  readonly names: ReadonlyMap<string, readonly string[] | null>
  readonly files: ReadonlyMap<string, TextFile>
}

export const disk: Files = {
  names: async path => ((await stat(path)).isDirectory() ? readdir(path) : null),
  async read(path, most = Infinity) {
    const { size, mtimeMs } = await stat(path)
    if (size > most) throw new Error(`is longer than ${most} bytes`)
    return { text: await readFile(path, 'utf8'), updated: Math.floor(mtimeMs) }
  },
  areAccepted: false
}

/** `files`, and what was read of them. */
export function noted(files: Files): { readonly files: Files; readonly read: FilesRead } {
  const read = { names: new Map<string, readonly string[] | null>(), files: new Map<string, TextFile>() }
  return {
    files: {
      async names(path) {
        const names = await files.names(path)
        read.names.set(path, names)
        return names
      },
      async read(path, most) {
        const file = await files.read(path, most)
        read.files.set(path, file)
        return file
      },
      areAccepted: files.areAccepted
    },
    read
  }
}

/** What another reading found, which then counted. */
export function accepted({ names, files }: FilesRead): Files {
  return {
    names: async path => found(names, path),
    read: async path => found(files, path),
    areAccepted: true
  }
}

function found<T>(all: ReadonlyMap<string, T>, path: string): T {
  const one = all.get(path)
  if (one === undefined) throw new Error('was not read')
  return one
}
