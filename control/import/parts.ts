import { Busboy } from '@fastify/busboy'
import { type Entry, fromBufferPromise } from 'yauzl'
import { Refused } from '../endpoint.ts'

/** One file as it was sent. */
export interface Part {
  /** With its folders, `/` between them. */
  readonly name: string
  readonly bytes: Buffer
  /** Media type without parameters, lower case; '' when nobody says. */
  readonly contentType: string
}

/** Several files, and which of them is the description, where the caller says so. */
export interface Parts {
  readonly parts: readonly Part[]
  /** A name; null: the one with `openapi` at its top. */
  readonly root: string | null
  /** Names came without their folders, as forms send them. */
  readonly flat: boolean
}

const MOST_PARTS = 1000
/** Fields that name the description, or that hold it. */
const ROOT_FIELDS = new Set(['root', 'main'])
const TOO_LARGE = 'Request Entity Too Large'

/** The files of a form (RFC 7578). `contentType`: with its parameters. @throws Refused 400 */
export function formParts(body: Buffer, contentType: string): Promise<Parts> {
  return new Promise((resolve, reject) => {
    const parts: Part[] = []
    let root: string | null = null
    const malformed = () => reject(new Refused(400, 'the form is not readable as multipart/form-data'))
    const tooMany = () => reject(new Refused(400, `the form has more than ${MOST_PARTS} parts`))
    let form: InstanceType<typeof Busboy>
    try {
      form = new Busboy({
        headers: { 'content-type': contentType },
        preservePath: true,
        limits: { parts: MOST_PARTS, fieldSize: Number.POSITIVE_INFINITY, headerPairs: 50, headerSize: 16_384 }
      })
    } catch {
      return malformed()
    }
    form.on('file', (field, stream, filename, _encoding, type) => {
      const chunks: Buffer[] = []
      stream.on('data', (chunk: Buffer) => void chunks.push(chunk))
      stream.on('error', malformed)
      stream.on('end', () => {
        const name = filename ?? field ?? ''
        if (ROOT_FIELDS.has(field)) root = name
        parts.push({ name, bytes: Buffer.concat(chunks), contentType: mediaType(type) })
      })
    })
    form.on('field', (field, value, _nameCut, _valueCut, _encoding, type) => {
      // Without a file name: the name of the description, or a file that its field names.
      if (ROOT_FIELDS.has(field) && !value.includes('\n')) root = value.trim()
      else {
        if (ROOT_FIELDS.has(field)) root = field
        parts.push({ name: field ?? '', bytes: Buffer.from(value), contentType: mediaType(type) })
      }
    })
    form.on('partsLimit', tooMany)
    form.on('error', malformed)
    form.on('finish', () => resolve({ parts, root, flat: true }))
    form.end(body)
  })
}

/** Whether bytes begin as a zip file does, empty ones included. */
export function isZip(bytes: Buffer): boolean {
  const mark = bytes.subarray(0, 4).toString('latin1')
  return mark === 'PK\x03\x04' || mark === 'PK\x05\x06'
}

/**
 * The descriptions in a zip file; other files, and zip files in it, are passed over. What an entry says of its size is
 * held against what comes out, and counting goes on while it comes out.
 * @throws Refused 400 for what is broken, encrypted or leads out of its folder; 413 above `mostBytes` unpacked
 */
export async function zipParts(bytes: Buffer, mostBytes: number): Promise<Part[]> {
  const parts: Part[] = []
  let unpacked = 0
  try {
    const zip = await fromBufferPromise(bytes, { lazyEntries: true, strictFileNames: false, validateEntrySizes: true })
    if (zip.entryCount > MOST_PARTS) throw new Refused(400, `the zip file has more than ${MOST_PARTS} entries`)
    for await (const entry of zip.eachEntry()) {
      if (entry.isEncrypted()) throw new Refused(400, 'the zip file is encrypted')
      if (!isDescription(entry)) continue
      if (entry.uncompressedSize > mostBytes - unpacked) throw new Refused(413, TOO_LARGE)
      const chunks: Buffer[] = []
      for await (const chunk of await zip.openReadStreamPromise(entry)) {
        unpacked += (chunk as Buffer).length
        if (unpacked > mostBytes) throw new Refused(413, TOO_LARGE)
        chunks.push(chunk as Buffer)
      }
      parts.push({ name: entry.fileName, bytes: Buffer.concat(chunks), contentType: '' })
    }
  } catch (cause) {
    if (cause instanceof Refused) throw cause
    const leavesIt = /(?:relative|absolute) path/.test((cause as Error).message)
    throw new Refused(400, leavesIt ? 'the zip file has an entry outside of it' : 'the zip file cannot be read')
  }
  return parts
}

function isDescription({ fileName }: Entry): boolean {
  return /\.(?:json|ya?ml)$/i.test(fileName) && !/(?:^|\/)(?:\.|__MACOSX\/)/.test(fileName)
}

export function mediaType(header: string | undefined): string {
  return (header ?? '').split(';', 1)[0]!.trim().toLowerCase()
}
