import {
  chmodSync,
  closeSync,
  existsSync,
  fsyncSync,
  linkSync,
  openSync,
  readFileSync,
  renameSync,
  unlinkSync,
  writeSync
} from 'node:fs'
import { dirname, join, resolve } from 'node:path'
import { makeFolder } from '../config/folder.ts'
import type { Random } from '../config/world.ts'

/** The file in the data folder that holds what was generated, one `name=value` a line. */
const FILE = 'secrets'

export interface Secrets {
  readonly gateway: string
  /** Where they are kept, absolute. */
  readonly file: string
  /** They were made just now. */
  readonly fresh: boolean
}

/**
 * Without a settings file: the secrets of the data folder, generated on first start (mode 0600).
 * @throws Error in one line: the folder cannot be written, the file holds no secret
 */
export function generatedSecrets(dataFile: string, random: Random): Secrets {
  const folder = resolve(dirname(dataFile))
  const file = join(folder, FILE)
  makeFolder(folder, 'storage.documents.path')
  const fresh = !existsSync(file) && create(file, `gateway.secret=${random.bytes(24).toString('base64url')}\n`)
  if (!fresh) chmodSync(file, 0o600)
  const gateway = /^gateway\.secret=([\x21-\x7e]{16,})$/m.exec(readFileSync(file, 'utf8'))?.[1]
  if (gateway === undefined)
    throw new Error(`${file} has no line gateway.secret=… of 16 characters or more: restore it, or remove the file`)
  return { gateway, file, fresh }
}

export interface AdministratorKey {
  readonly accessKey: string
  /** Where it is kept, absolute. */
  readonly file: string
}

/**
 * The access key of the first management user, out of the same file; generated when it holds none yet.
 * @throws Error in one line, as above
 */
export function administratorKey(dataFile: string, random: Random): AdministratorKey {
  const folder = resolve(dirname(dataFile))
  const file = join(folder, FILE)
  makeFolder(folder, 'storage.documents.path')
  const text = existsSync(file) ? readFileSync(file, 'utf8') : ''
  if (!/^admin\.access_key=/m.test(text)) {
    const accessKey = Buffer.from(random.bytes(16)).toString('hex')
    const lines = text === '' || text.endsWith('\n') ? text : `${text}\n`
    renameSync(unfinished(file, `${lines}admin.access_key=${accessKey}\n`), file)
    return { accessKey, file }
  }
  const accessKey = /^admin\.access_key=([\x21-\x7e]{16,256})$/m.exec(text)?.[1]
  if (accessKey === undefined) throw new Error(`${file}: the line admin.access_key=… needs 16 characters or more`)
  return { accessKey, file }
}

/** Whole or not at all, whatever ends the process meanwhile; false: another process was faster. */
function create(file: string, text: string): boolean {
  const whole = unfinished(file, text)
  try {
    linkSync(whole, file)
    return true
  } catch (cause) {
    if ((cause as NodeJS.ErrnoException).code !== 'EEXIST') throw cause
    return false
  } finally {
    unlinkSync(whole)
  }
}

/** A file beside it, for its owner alone, that has reached the disk. */
function unfinished(file: string, text: string): string {
  const path = `${file}.${process.pid}`
  const fd = openSync(path, 'w', 0o600)
  writeSync(fd, text)
  fsyncSync(fd)
  closeSync(fd)
  return path
}

/** The sample API of an empty store: `/echo/`, key authentication, answered by the built-in upstream. */
export const sampleApi = {
  openapi: '3.0.3',
  info: { title: 'echo', version: '1', description: 'Answers with what an upstream would have received' },
  paths: {
    '/hello': { get: { operationId: 'helloGET', responses: { '200': { description: 'the request, as JSON' } } } }
  },
  components: { securitySchemes: { key: { type: 'apiKey', in: 'header', name: 'Authorization' } } },
  security: [{ key: [] }],
  'x-svc-api-gateway': {
    info: { id: 'echo', orgId: 'default', name: 'echo', state: { active: true } },
    upstream: { url: 'svc://echo' },
    server: {
      listenPath: { value: '/echo/', strip: true },
      authentication: { enabled: true, stripAuthorizationData: true, securitySchemes: { key: { enabled: true } } }
    }
  }
}

/** What the three commands need to know. */
export interface Shown {
  /** Base URLs: APIs, and the `/svc` interface. */
  readonly gateway: string
  readonly control: string
  /** Null: the secret came from the environment. */
  readonly secrets: Secrets | null
}

/** In the place of a secret that lies in no file: another terminal does not have the variable. */
const BY_ENVIRONMENT = 'put the value of SVC_GATEWAY__SECRET here'

/** Three commands that show a key-protected, rate-limited request. They read the secret where it lies and hold none. */
export function pastes({ gateway, control, secrets }: Shown): readonly [string, string, string] {
  const body = JSON.stringify({
    rate: 3,
    per: 10,
    access_rights: { echo: { api_id: 'echo', api_name: 'echo', versions: ['Default'] } }
  })
  const secret =
    secrets === null ? BY_ENVIRONMENT : `$(sed -n s/^gateway.secret=//p '${secrets.file.replaceAll("'", "'\\''")}')`
  const created = `curl -s -X POST '${control}/svc/keys/create' -H "X-Svc-Authorization: ${secret}" -H 'Content-Type: application/json' -d '${body}'`
  const call = `'${gateway}/echo/hello' -H "Authorization: $KEY"`
  return [
    `KEY=$(${created} | sed -E 's/.*"key":"([^"]+)".*/\\1/'); echo "$KEY"`,
    `curl -s ${call}; echo`,
    `for i in 1 2 3 4 5; do curl -s -o /dev/null -w '%{http_code} ' ${call}; done; echo`
  ]
}

/** The same for people. */
export function readablePastes([create, call, limit]: ReturnType<typeof pastes>): string {
  return `
Three commands to paste into another terminal:

  1. Create a key that allows 3 requests in 10 seconds:
     ${create}

  2. Call the API with it:
     ${call}

  3. See the limit at work (200 … then 429):
     ${limit}

`
}
