import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { type ClientHttp2Session, type ClientSessionOptions, connect as connectHttp2 } from 'node:http2'
import { type AddressInfo, createServer } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { type ConnectionOptions, connect, type TLSSocket } from 'node:tls'
import type { Test } from 'tap'
import { CN, certificate, hosts, isCa, type Made } from '../helpers/certificates.ts'
import { gateway, type TestGateway } from '../helpers/gateway.ts'

/** An authority of the tests, and what it issues. */
export const root = certificate({ subject: [[CN, 'root of the tests']], extensions: [isCa] })

export function issued(...names: string[]): Made {
  return certificate({ issuer: root, subject: [[CN, names[0]!]], extensions: [hosts(...names)] })
}

export function pemOf(made: Made, ...chain: Made[]): string {
  return [made.pem, ...chain.map(({ pem }) => pem), made.keyPem].join('\n')
}

/** Files of certificates with their keys, by name; they go with the test. */
export function files(t: Test, given: Record<string, string>): Record<string, string> {
  const folder = mkdtempSync(join(tmpdir(), 'svc-tls-'))
  t.teardown(() => rmSync(folder, { recursive: true, force: true }))
  const paths = Object.entries(given).map(([name, text]) => {
    const path = join(folder, `${name}.pem`)
    writeFileSync(path, text)
    return [name, path] as const
  })
  return Object.fromEntries(paths)
}

export async function freePort(): Promise<number> {
  const server = createServer()
  await new Promise<void>(resolve => server.listen(0, '127.0.0.1', resolve))
  const { port } = server.address() as AddressInfo
  await new Promise(resolve => server.close(resolve))
  return port
}

export interface Secure extends TestGateway {
  readonly port: number
}

/** A gateway whose data plane speaks TLS; `/svc` answers apart from it, plain. */
export async function secure(
  t: Test,
  ssl_certificates: readonly string[],
  given: { options?: object; settings?: object; apis?: readonly unknown[]; rest?: object } = {}
): Promise<Secure> {
  const http_server_options = { use_ssl: true, ssl_certificates, ...given.options }
  const running = await gateway(t, {
    settings: {
      ...given.rest,
      gateway: { control_api_port: await freePort(), http_server_options, ...given.settings }
    },
    apis: given.apis ?? []
  })
  return { ...running, port: Number(new URL(running.url).port) }
}

/** A handshake that has ended well; the connection ends with the test. */
export function shake(t: Test, port: number, options: ConnectionOptions = {}): Promise<TLSSocket> {
  return new Promise((resolve, reject) => {
    const socket = connect({ port, host: '127.0.0.1', ca: root.pem, rejectUnauthorized: false, ...options })
    t.teardown(() => void socket.destroy())
    socket.once('secureConnect', () => resolve(socket))
    socket.once('error', reject)
  })
}

/** Who the listener says it is: the common name of what it shows. */
export async function shownTo(t: Test, port: number, servername?: string): Promise<string> {
  const socket = await shake(t, port, servername === undefined ? {} : { servername })
  const name = String(socket.getPeerCertificate().subject.CN)
  socket.destroy()
  return name
}

/** A connection of HTTP/2; it ends with the test. */
export function http2(t: Test, port: number, options: object = {}): ClientHttp2Session {
  const given = { rejectUnauthorized: false, ...options } as ClientSessionOptions
  const session = connectHttp2(`https://127.0.0.1:${port}`, given)
  session.on('error', () => {})
  t.teardown(() => session.destroy())
  return session
}

export interface Answer {
  readonly status: number
  readonly headers: Record<string, any>
  readonly body: Buffer
  readonly trailers: Record<string, any>
  /** Code of RST_STREAM; 0: it ended well. */
  readonly code: number
  readonly informations: Record<string, any>[]
}

/** One request of HTTP/2. */
export function ask(
  session: ClientHttp2Session,
  headers: Record<string, any> | string[],
  body: Buffer | string | null = null,
  trailers: Record<string, string> | null = null
): Promise<Answer> {
  return new Promise(resolve => {
    const stream = session.request(headers as never, {
      endStream: body === null,
      ...(trailers === null ? {} : { waitForTrailers: true })
    })
    const chunks: Buffer[] = []
    const informations: Record<string, any>[] = []
    let head: Record<string, any> = {}
    let last: Record<string, any> = {}
    stream.on('headers', given => void informations.push(given))
    stream.on('response', given => {
      head = given
    })
    stream.on('trailers', given => {
      last = given
    })
    stream.on('wantTrailers', () => stream.sendTrailers(trailers!))
    stream.on('data', chunk => void chunks.push(chunk as Buffer))
    stream.on('error', () => {})
    stream.on('close', () =>
      resolve({
        status: Number(head[':status'] ?? 0),
        headers: head,
        body: Buffer.concat(chunks),
        trailers: last,
        code: stream.rstCode,
        informations
      })
    )
    if (body !== null) stream.end(body)
  })
}
