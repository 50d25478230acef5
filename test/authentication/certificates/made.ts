import { execFileSync } from 'node:child_process'
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import type { Test } from 'tap'
import { der, extension, oid, sequence } from '../../helpers/certificates.ts'
import { gateway, type TestGateway } from '../../helpers/gateway.ts'

/** Certificates as clients have them, and gateways behind a proxy that forwards them. */

/** What openssl writes into a certificate. */
interface Asked {
  /** Its own where absent. */
  readonly issuer?: Issued
  readonly subject?: string
  /** Lines of an openssl configuration's section. */
  readonly extensions?: readonly string[]
  /** Arguments of `openssl genpkey`. */
  readonly key?: readonly string[]
  /** Argument of `openssl x509`. */
  readonly digest?: string
  readonly sign?: readonly string[]
}

/** PEM files. */
export interface Issued {
  readonly pem: string
  readonly certificateFile: string
  readonly keyFile: string
}

export const authorityLines = ['basicConstraints=critical,CA:true', 'keyUsage=critical,keyCertSign,cRLSign']
export const clientLines = [
  'basicConstraints=CA:false',
  'keyUsage=critical,digitalSignature',
  'extendedKeyUsage=clientAuth'
]
export const EC = ['-algorithm', 'EC', '-pkeyopt', 'ec_paramgen_curve:P-256']
export const rsa = (bits: number) => ['-algorithm', 'RSA', '-pkeyopt', `rsa_keygen_bits:${bits}`]

/** An issuer in a folder of the test's own. */
export function openssl(t: Test): (asked?: Asked) => Issued {
  const folder = mkdtempSync(join(tmpdir(), 'svc-certificates-'))
  t.teardown(() => rmSync(folder, { recursive: true, force: true }))
  let made = 0
  return ({ issuer, subject = `/O=test/CN=made ${made}`, extensions = clientLines, key = EC, digest, sign } = {}) => {
    const file = (end: string) => join(folder, `${made}.${end}`)
    made++
    const run = (...args: string[]) => execFileSync('openssl', args, { stdio: 'pipe' })
    run('genpkey', ...key, '-out', file('key'))
    run('req', '-new', '-key', file('key'), '-subj', subject, '-out', file('csr'))
    writeFileSync(file('ext'), extensions.join('\n'))
    const signer =
      issuer === undefined ? ['-signkey', file('key')] : ['-CA', issuer.certificateFile, '-CAkey', issuer.keyFile]
    run(
      ...['x509', '-req', '-in', file('csr'), ...signer, '-set_serial', String(1000 + made), '-days', '3650'],
      ...['-extfile', file('ext'), `-${digest ?? 'sha256'}`, ...(sign ?? []), '-out', file('pem')]
    )
    return { pem: readFileSync(file('pem'), 'utf8'), certificateFile: file('pem'), keyFile: file('key') }
  }
}

/** As `Client-Cert` writes a certificate (RFC 9440 §2.1). */
export function byteSequence(pem: string): string {
  return `:${pem.replace(/-----[A-Z ]+-----/g, '').replace(/\s/g, '')}:`
}

/** The headers of a proxy whose client has shown these. */
export function forwarded(leaf: { pem: string }, ...chain: readonly { pem: string }[]): Record<string, string> {
  const rest = chain.map(({ pem }) => byteSequence(pem)).join(', ')
  return { 'Client-Cert': byteSequence(leaf.pem), ...(rest === '' ? {} : { 'Client-Cert-Chain': rest }) }
}

/** A gateway that takes the test for a trusted proxy. */
export function behindProxy(t: Test, given: Parameters<typeof gateway>[1] = {}): Promise<TestGateway> {
  const { gateway: own = {}, ...rest } = given.settings ?? {}
  return gateway(t, { ...given, settings: { ...rest, gateway: { trusted_proxies: ['127.0.0.1/32'], ...own } } })
}

/** Keeps a certificate in an organisation; answers its id. */
export async function uploaded(gw: TestGateway, { pem }: { pem: string }, org = 'default'): Promise<string> {
  const { status, body } = await gw.svc('POST', `/svc/certs?org_id=${org}`, pem, {
    'Content-Type': 'application/x-pem-file'
  })
  if (status !== 200) throw new Error(`the certificate was refused: ${JSON.stringify(body)}`)
  return body.id
}

/** Status and text of an API's answer. */
export async function told(gw: TestGateway, path: string, headers: Record<string, string> = {}): Promise<string> {
  const answer = await gw.get(path, headers)
  const body = await answer.json()
  return answer.status === 200 ? '200' : `${answer.status} ${(body as { error: string }).error}`
}

// Extensions of certificates that `certificate()` makes.
const critical = Buffer.of(0x01, 0x01, 0xff)
export const criticalExtension = (type: string, value: Uint8Array) => sequence(oid(type), critical, der(0x04, value))
/** @param path longest path; absent: any */
export const authorityOf = (path?: number) =>
  criticalExtension('2.5.29.19', sequence(critical, ...(path === undefined ? [] : [der(0x02, Buffer.of(path))])))
export const usages = (...purposes: string[]) => extension('2.5.29.37', sequence(...purposes.map(oid)))
export const CLIENT = '1.3.6.1.5.5.7.3.2'
export const SERVER = '1.3.6.1.5.5.7.3.1'
/** The first octet of `keyUsage`. */
export const keyUsage = (bits: number) => criticalExtension('2.5.29.15', der(0x03, Buffer.of(0, bits)))
const subtrees = (number: number, names: readonly Buffer[]) =>
  names.length === 0 ? [] : [der(0xa0 | number, ...names.map(name => sequence(name)))]
export const nameConstraints = (permitted: readonly Buffer[], excluded: readonly Buffer[] = []) =>
  criticalExtension('2.5.29.30', sequence(...subtrees(0, permitted), ...subtrees(1, excluded)))
export const alternatives = (...names: readonly Buffer[]) => extension('2.5.29.17', sequence(...names))
export const generalName = (kind: number, value: string | readonly number[]) =>
  der(0x80 | kind, typeof value === 'string' ? Buffer.from(value) : Buffer.from(value))
