import { connect as connectPlain, isIP } from 'node:net'
import { connect as connectTls } from 'node:tls'
import type { Log } from '../../../config/world.ts'
import type { BrokerOptions } from '../../connector.ts'
import { safeLookup } from '../../linkLocal.ts'
import { createLogger, type OpenSocket, type Sasl } from './library.ts'

/** What every connection to one cluster is made of. */
export interface Client {
  readonly addresses: readonly Address[]
  readonly clientId: string
  readonly tls: object | null
  readonly sasl: Sasl | null
  readonly logger: unknown
}

export interface Address {
  readonly host: string
  readonly port: number
}

interface TlsGiven {
  readonly enabled?: boolean
  readonly skip_cert_verify?: boolean
  readonly root_cas?: string
  readonly client_certs?: readonly { readonly cert?: string; readonly key?: string; readonly password?: string }[]
}

interface SaslGiven {
  readonly mechanism?: string
  readonly user?: string
  readonly password?: string
  readonly access_token?: string
}

/** @throws Error naming the address that is none */
export function clientOf(options: BrokerOptions, log: Log): Client {
  const given = options.addresses.flatMap(item => item.split(',')).map(item => item.trim())
  return {
    addresses: given.filter(item => item !== '').map(addressOf),
    clientId: options.client_id ?? 'svc',
    tls: tlsOf(options.tls ?? {}),
    sasl: saslOf(options.sasl ?? {}),
    // 4: what kafkajs calls information. Its requests, one level below, are not for our log.
    logger: createLogger(4, ({ namespace, log: { message, broker } }) =>
      log.debug(message, { part: namespace, broker })
    )
  }
}

/** `host`, `host:port`, `[v6]:port`, with or without a scheme; port 9092 unless told. */
function addressOf(text: string): Address {
  const match = /^(?:[a-z][a-z0-9+_]*:\/\/)?(?:\[([^\]]+)\]|([^:/[\]\s]+))(?::(\d{1,5}))?$/i.exec(text)
  const port = Number(match?.[3] ?? 9092)
  if (match === null || port < 1 || port > 65_535) throw new Error(`not an address of a broker: ${text}`)
  return { host: (match[1] ?? match[2])!, port }
}

function tlsOf({ enabled, skip_cert_verify, root_cas, client_certs = [] }: TlsGiven): object | null {
  if (enabled !== true) return null
  const own = client_certs.filter(({ cert, key }) => cert !== undefined && key !== undefined)
  return {
    rejectUnauthorized: skip_cert_verify !== true,
    ...(root_cas === undefined || root_cas === '' ? {} : { ca: [root_cas] }),
    ...(own.length === 0
      ? {}
      : {
          cert: own.map(({ cert }) => cert),
          key: own.map(({ key, password }) =>
            password === undefined ? { pem: key } : { pem: key, passphrase: password }
          )
        })
  }
}

function saslOf({ mechanism = 'none', user = '', password = '', access_token = '' }: SaslGiven): Sasl | null {
  if (mechanism === 'none' || mechanism === '') return null
  if (mechanism === 'OAUTHBEARER') {
    return { mechanism, oauthBearerProvider: () => Promise.resolve({ value: access_token }) }
  }
  return { mechanism, username: user, password }
}

/** Requests are small and wanted at once; a peer that vanished is noticed between requests too. */
export const openSocket: OpenSocket = ({ host, port, ssl, onConnect }) => {
  const socket =
    ssl === null
      ? connectPlain({ host, port, lookup: safeLookup }, onConnect)
      : connectTls(
          { host, port, lookup: safeLookup, ...(isIP(host) === 0 ? { servername: host } : {}), ...ssl },
          onConnect
        )
  socket.setNoDelay(true)
  socket.setKeepAlive(true, 30_000)
  return socket
}
