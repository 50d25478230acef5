import { execFileSync } from 'node:child_process'
import { join } from 'node:path'
import { type GatewayContender, gateway, generous } from './contenders.ts'
import { folder } from './processes.ts'
import { alternate, ratio, report } from './rounds.ts'
import { type Scenario, target } from './scenario.ts'
import { startUpstream } from './upstream.ts'

export const https: Scenario = {
  name: 'https',
  summary:
    'key authentication over TLS 1.3 with kept connections, beside the same over plain HTTP; needs openssl and wrk',
  async run(options) {
    const { env } = options
    const temp = folder()
    const certificate = selfSigned(temp.path)
    const upstream = await startUpstream()
    const secured = {
      ...env,
      SVC_GATEWAY__HTTP_SERVER_OPTIONS__USE_SSL: 'true',
      SVC_GATEWAY__HTTP_SERVER_OPTIONS__SSL_CERTIFICATES: JSON.stringify([certificate]),
      SVC_GATEWAY__HTTP_SERVER_OPTIONS__MIN_VERSION: '1.3'
    }
    const results = await alternate(
      [
        { contender: gateway({ name: 'http', env, key: generous }) },
        { contender: trusting(gateway({ name: 'https', env: secured, key: generous })) }
      ],
      upstream,
      options
    )
    await upstream.stop()
    temp.remove()
    return report(
      'Key, rate and quota that are never reached, 64 connections that stay',
      results,
      ['http'],
      [target('https ÷ http', ratio(results, 'perSecond', 'https', 'http'), '>=', 0.75)]
    )
  }
}

/** The looks of this process at the gateway know its certificate. */
function trusting(contender: GatewayContender): GatewayContender {
  return {
    name: contender.name,
    async start(upstream) {
      process.env.NODE_TLS_REJECT_UNAUTHORIZED = '0'
      return contender.start(upstream)
    }
  }
}

/** A PEM file with an ECDSA certificate of a day and its key. */
function selfSigned(folder: string): string {
  const [key, certificate] = [join(folder, 'key.pem'), join(folder, 'certificate.pem')]
  const of = ['-newkey', 'ec', '-pkeyopt', 'ec_paramgen_curve:prime256v1', '-nodes', '-subj', '/CN=localhost']
  execFileSync('openssl', ['req', '-x509', ...of, '-days', '1', '-keyout', key, '-out', certificate], {
    stdio: 'ignore'
  })
  const both = join(folder, 'both.pem')
  execFileSync('sh', ['-c', 'cat "$1" "$2" > "$3"', 'sh', certificate, key, both])
  return both
}
