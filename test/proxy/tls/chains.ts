import { execFileSync } from 'node:child_process'
import { X509Certificate } from 'node:crypto'
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import type { Test } from 'tap'

export interface Pair {
  readonly cert: string
  readonly key: string
  /** Of the certificate; the key's is beside it, with `.key`. */
  readonly file: string
}

export interface Asked {
  /** Common name. */
  readonly name: string
  /** Absent: it signs itself. */
  readonly issuer?: Pair
  /** Lines of OpenSSL's configuration. */
  readonly extensions?: readonly string[]
  /** Arguments of `openssl genpkey`. */
  readonly key?: readonly string[]
  /** Days until its end; below 0: it has expired. */
  readonly days?: number
}

export const CA = ['basicConstraints=critical,CA:TRUE', 'keyUsage=critical,keyCertSign,cRLSign']
export const SERVER = ['basicConstraints=CA:FALSE', 'extendedKeyUsage=serverAuth']
export const CLIENT = ['basicConstraints=CA:FALSE', 'extendedKeyUsage=clientAuth']
export const LOCALHOST = 'subjectAltName=DNS:localhost,IP:127.0.0.1'
const P256 = ['-algorithm', 'EC', '-pkeyopt', 'ec_paramgen_curve:P-256']

/** Makes certificates with openssl, in a folder that goes with the test. */
export function chains(t: Test): (asked: Asked) => Pair {
  const folder = mkdtempSync(join(tmpdir(), 'svc-chains-'))
  t.teardown(() => rmSync(folder, { recursive: true, force: true }))
  let count = 0
  const openssl = (...given: string[]) => execFileSync('openssl', given, { cwd: folder, stdio: 'pipe' })
  return ({ name, issuer, extensions = [], key = P256, days = 30 }) => {
    const file = join(folder, `c${count++}`)
    openssl('genpkey', ...key, '-out', `${file}.key`)
    writeFileSync(`${file}.index`, '')
    // `openssl ca` alone makes certificates that have ended already.
    writeFileSync(
      `${file}.cnf`,
      `[req]
distinguished_name=dn
[dn]
[ca]
default_ca=d
[d]
database=${file}.index
new_certs_dir=${folder}
rand_serial=yes
default_md=sha256
policy=p
[p]
commonName=supplied
[ext]
${extensions.join('\n')}
`
    )
    const at = (offset: number) =>
      new Date(Date.now() + offset * 86_400_000)
        .toISOString()
        .replace(/[-:T]/g, '')
        .replace(/\.\d+Z/, 'Z')
    openssl(
      'req',
      '-new',
      '-key',
      `${file}.key`,
      '-subj',
      `/CN=${name}`,
      '-config',
      `${file}.cnf`,
      '-out',
      `${file}.csr`
    )
    const by =
      issuer === undefined
        ? ['-selfsign', '-keyfile', `${file}.key`]
        : ['-cert', issuer.file, '-keyfile', `${issuer.file}.key`]
    const dates = ['-startdate', at(Math.min(days, 0) - 10), '-enddate', at(days)]
    const where = ['-config', `${file}.cnf`, '-extensions', 'ext', '-in', `${file}.csr`, '-out', file]
    openssl('ca', '-batch', '-notext', ...where, ...by, ...dates)
    return { cert: readFileSync(file, 'utf8'), key: readFileSync(`${file}.key`, 'utf8'), file }
  }
}

/** The id of a certificate in the store. */
export function idOf(org: string, cert: string): string {
  return org + new X509Certificate(cert).fingerprint256.replaceAll(':', '').toLowerCase()
}

/** `sha256/…` of its public key, as openssl has it. */
export function pin(cert: string): string {
  const line = 'openssl x509 -pubkey -noout | openssl pkey -pubin -outform der | openssl dgst -sha256 -binary | base64'
  return `sha256/${execFileSync('sh', ['-c', line], { input: cert, encoding: 'utf8' }).trim()}`
}
