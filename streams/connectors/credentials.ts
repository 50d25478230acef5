import { createPrivateKey, type KeyObject, X509Certificate } from 'node:crypto'
import { createSecureContext, type SecureContextOptions } from 'node:tls'
import type { Fault } from '../connector.ts'

/** `tls` and `sasl` of connectors: what their shapes cannot say. Whoever writes them relies on them, so none may say nothing. */

export interface Tls {
  readonly enabled?: boolean
  readonly skip_cert_verify?: boolean
  readonly root_cas?: string
  readonly client_certs?: readonly Pair[]
}

interface Pair {
  readonly cert?: string
  readonly key?: string
  readonly password?: string
}

export interface Sasl {
  readonly mechanism?: string
  readonly user?: string
  readonly password?: string
  readonly access_token?: string
}

const CERTIFICATE = /-----BEGIN CERTIFICATE-----[^-]*-----END CERTIFICATE-----/g
const BEGIN = /-----BEGIN CERTIFICATE-----/g

export function checkTls(tls: Tls | undefined, fault: Fault): void {
  if (tls === undefined) return
  const { enabled, ...others } = tls
  const silent = Object.keys(others)
  if (enabled !== true && silent.length > 0) fault('/tls', `says nothing without enabled: true: ${silent.join(', ')}`)
  let isGood = unfilled('/tls/root_cas', tls.root_cas, fault)
  if (isGood && tls.root_cas) isGood = certificates('/tls/root_cas', tls.root_cas, fault) !== null
  for (const [i, pair] of (tls.client_certs ?? []).entries())
    if (!checkPair(`/tls/client_certs/${i}`, pair, fault)) isGood = false
  if (!isGood) return
  try {
    createSecureContext(secureOptions(tls))
  } catch (cause) {
    fault('/tls', `cannot be used: ${cause instanceof Error ? cause.message : String(cause)}`)
  }
}

/** Whether a certificate, which may have those of its issuers behind it, and its key can be used. */
function checkPair(place: string, { cert, key, password }: Pair, fault: Fault): boolean {
  if (!cert || !key) {
    fault(place, 'needs cert and key')
    return false
  }
  const given = { cert, key, password }
  const isPlain = Object.entries(given).map(([name, text]) => unfilled(`${place}/${name}`, text, fault))
  if (isPlain.includes(false)) return false
  const chain = certificates(`${place}/cert`, cert, fault)
  const own = privateKey(key, password)
  if (own === null) fault(`${place}/key`, 'is no private key in PEM that its password opens')
  if (chain === null || own === null) return false
  if (chain[0]!.checkPrivateKey(own)) return true
  fault(place, 'key is not the one of cert')
  return false
}

/** At least one; null, and the fault is told. A context takes authorities that it cannot read, and then believes none. */
function certificates(place: string, text: string, fault: Fault): readonly X509Certificate[] | null {
  const all = text.match(CERTIFICATE) ?? []
  if (all.length === 0 || all.length < text.match(BEGIN)!.length) {
    fault(place, all.length === 0 ? 'holds no certificate in PEM' : 'holds a certificate that does not end')
    return null
  }
  try {
    return all.map(one => new X509Certificate(one))
  } catch {
    fault(place, 'holds a certificate that cannot be read')
    return null
  }
}

function privateKey(key: string, passphrase: string | undefined): KeyObject | null {
  try {
    return createPrivateKey({ key, format: 'pem', ...(passphrase ? { passphrase } : {}) })
  } catch {
    return null
  }
}

export function secureOptions({ root_cas, client_certs = [] }: Tls): SecureContextOptions {
  return {
    ...(root_cas ? { ca: root_cas } : {}),
    ...(client_certs.length === 0
      ? {}
      : {
          cert: client_certs.map(({ cert }) => cert!),
          key: client_certs.map(({ key, password }) => ({ pem: key!, ...(password ? { passphrase: password } : {}) }))
        })
  }
}

const LOGIN = ['user', 'password'] as const
/** Members that a mechanism needs; all others say nothing beside it. */
const NEEDED: Readonly<Record<string, readonly (keyof Sasl)[]>> = {
  PLAIN: LOGIN,
  'SCRAM-SHA-256': LOGIN,
  'SCRAM-SHA-512': LOGIN,
  OAUTHBEARER: ['access_token']
}

export function checkSasl(sasl: Sasl | undefined, fault: Fault): void {
  if (sasl === undefined) return
  const { mechanism = 'none', ...others } = sasl
  const needed = NEEDED[mechanism] ?? []
  for (const name of needed) if (!sasl[name]) fault(`/sasl/${name}`, `is required with the mechanism ${mechanism}`)
  for (const [name, text] of Object.entries(others))
    if (!needed.includes(name as keyof Sasl)) fault(`/sasl/${name}`, `says nothing with the mechanism ${mechanism}`)
    else unfilled(`/sasl/${name}`, text, fault)
}

/** Whether a text has no variable in it, where nobody would fill it in. */
export function unfilled(place: string, text: string | undefined, fault: Fault): boolean {
  const variable = /\$(?:secret|svc)_/.exec(text ?? '')
  if (variable === null) return true
  fault(place, `holds ${variable[0]}…: variables are not replaced here`)
  return false
}
