import { deflateRawSync } from 'node:zlib'
import { ZipFile } from 'yazl'
import { systemClock } from '../../../config/world.ts'
import type { Bounds, Input } from '../../../control/import/source.ts'

export const JSON_TYPE = 'application/json'
export const YAML_TYPE = 'application/yaml'

/** A description of the smallest useful kind; `more` is laid over it. */
export function description(more: Record<string, unknown> = {}): Record<string, unknown> {
  return {
    openapi: '3.0.3',
    info: { title: 'pets', version: '1' },
    servers: [{ url: 'http://pets.example/v1' }],
    paths: { '/pets': { get: { operationId: 'listPets', responses: { 200: { description: 'all' } } } } },
    ...more
  }
}

export function bounds(more: Partial<Bounds> = {}): Bounds {
  return { mostBytes: 1_000_000, privateNetworks: [], clock: systemClock, ...more }
}

export function input(body: unknown, contentType = JSON_TYPE): Input {
  if (Buffer.isBuffer(body)) return { body, contentType }
  return { body: Buffer.from(typeof body === 'string' ? body : JSON.stringify(body)), contentType }
}

type Files = Readonly<Record<string, string | Buffer>>

export async function zipped(files: Files): Promise<Buffer> {
  const zip = new ZipFile()
  for (const [name, text] of Object.entries(files)) zip.addBuffer(Buffer.from(text), name)
  zip.end()
  const chunks: Buffer[] = []
  for await (const chunk of zip.outputStream) chunks.push(chunk as Buffer)
  return Buffer.concat(chunks)
}

/** What a form of a browser or curl sends: file names, and fields before them. */
export async function form(files: Files, fields: Readonly<Record<string, string>> = {}): Promise<Input> {
  const boundary = 'a-boundary-of-the-tests'
  const parts = [
    ...Object.entries(fields).map(([name, value]) => [`name="${name}"`, Buffer.from(value)] as const),
    ...Object.entries(files).map(([name, text]) => [`name="file"; filename="${name}"`, Buffer.from(text)] as const)
  ]
  const body = Buffer.concat([
    ...parts.flatMap(([head, bytes]) => [
      Buffer.from(`--${boundary}\r\nContent-Disposition: form-data; ${head}\r\n\r\n`),
      bytes,
      Buffer.from('\r\n')
    ]),
    Buffer.from(`--${boundary}--\r\n`)
  ])
  return { body, contentType: `multipart/form-data; boundary=${boundary}` }
}

/** A zip file of one entry, made by hand, so that it can lie: about its size, its name, its flags. */
export function forgedZip(
  { name, bytes }: { name: string; bytes: Buffer },
  { size = bytes.length, flags = 0 }: { size?: number; flags?: number } = {}
): Buffer {
  const data = deflateRawSync(bytes)
  const title = Buffer.from(name)
  const local = Buffer.alloc(30)
  local.writeUInt32LE(0x04034b50, 0)
  local.writeUInt16LE(20, 4)
  local.writeUInt16LE(flags, 6)
  local.writeUInt16LE(8, 8)
  local.writeUInt32LE(data.length, 18)
  local.writeUInt32LE(size, 22)
  local.writeUInt16LE(title.length, 26)
  const central = Buffer.alloc(46)
  central.writeUInt32LE(0x02014b50, 0)
  central.writeUInt16LE(20, 4)
  central.writeUInt16LE(20, 6)
  central.writeUInt16LE(flags, 8)
  central.writeUInt16LE(8, 10)
  central.writeUInt32LE(data.length, 20)
  central.writeUInt32LE(size, 24)
  central.writeUInt16LE(title.length, 28)
  const end = Buffer.alloc(22)
  end.writeUInt32LE(0x06054b50, 0)
  end.writeUInt16LE(1, 8)
  end.writeUInt16LE(1, 10)
  end.writeUInt32LE(central.length + title.length, 12)
  end.writeUInt32LE(local.length + title.length + data.length, 16)
  return Buffer.concat([local, title, data, central, title, end])
}
