import { Busboy } from '@fastify/busboy'
import type { Call } from '../endpoint.ts'
import { Refused } from '../endpoint.ts'
import { LARGEST_UPLOAD } from './read.ts'

export interface Sent {
  readonly bytes: Buffer
  /** '' for none. */
  readonly password: string
}

const limits = {
  parts: 20,
  fields: 20,
  files: 5,
  fieldSize: LARGEST_UPLOAD,
  fileSize: LARGEST_UPLOAD + 1,
  headerPairs: 50
}

/**
 * A certificate as it was sent: a form (RFC 7578) with the file `file` and, where there is one, the field `password`;
 * or the bare file as the whole body.
 * @throws Refused 400
 */
export async function sentFile({
  body,
  contentHeader,
  contentType
}: Pick<Call<never, never, unknown>, 'body' | 'contentHeader' | 'contentType'>): Promise<Sent> {
  const bytes = body as Buffer
  if (bytes.length === 0) throw new Refused(400, 'The body is empty: send a certificate')
  if (contentType !== 'multipart/form-data') return { bytes, password: '' }
  const { file, password } = await fields(bytes, contentHeader)
  if (file === undefined || file.length === 0) throw new Refused(400, 'The form has no file named file')
  return { bytes: file, password: password?.toString('utf8') ?? '' }
}

function fields(body: Buffer, contentHeader: string): Promise<{ readonly file?: Buffer; readonly password?: Buffer }> {
  return new Promise((resolve, reject) => {
    const found = new Map<string, Buffer>()
    const refuse = (message: string) => () => reject(new Refused(400, message))
    const malformed = refuse('The form is not readable as multipart/form-data')
    const tooMany = refuse('The form has too many parts')
    const take = (name: string | undefined, value: Buffer) => {
      if (found.has(name ?? '')) return refuse('The form has a part twice')()
      found.set(name ?? '', value)
    }
    let form: InstanceType<typeof Busboy>
    try {
      form = new Busboy({ headers: { 'content-type': contentHeader }, limits })
    } catch {
      return malformed()
    }
    form.on('file', (name, stream) => {
      const chunks: Buffer[] = []
      stream.on('data', (chunk: Buffer) => void chunks.push(chunk))
      stream.on('error', malformed)
      stream.on('end', () => take(name, Buffer.concat(chunks)))
    })
    form.on('field', (name, value) => take(name, Buffer.from(value)))
    for (const limit of ['partsLimit', 'filesLimit', 'fieldsLimit'] as const) form.on(limit, tooMany)
    form.on('error', malformed)
    form.on('finish', () => resolve(Object.fromEntries(found)))
    form.end(body)
  })
}
