import type { Api, Target as ApiTarget } from '../api.ts'
import { strip } from '../authentication/strip.ts'
import { ANSWERED } from '../exchange.ts'
import { behindSegments } from '../paths.ts'
import type { Plan } from '../proxy/proxy.ts'
import { Targets } from '../proxy/targets.ts'
import { tlsProfile } from '../proxy/tls/profile.ts'
import type { Target, TlsProfile } from '../proxy/upstream.ts'
import type { Step } from './step.ts'
import { requestEdits } from './transformHeaders.ts'

/** The step that answers: hands the request to the upstream. */
export const proxy: Step = {
  name: 'proxy',
  make(api, tools) {
    const { proxy, settings, clock } = tools
    const { upstream } = api
    const echo = upstream.targets[0]!.protocol === 'svc:' ? target(upstream.targets[0]!, null) : null
    const edits = requestEdits(api)
    const { authentication } = api
    const strips = authentication?.strip ? strip(authentication) : null
    const ofApi = upstream.timeoutMs ?? settings.proxy_default_timeout * 1000
    const plan: Plan = {
      echo,
      targets: new Targets(
        upstream.targets.map(each => ({
          target: target(each, each.protocol === 'https:' ? tlsProfile(api, each, tools) : null),
          weight: each.weight
        })),
        upstream.balanced && upstream.skipUnavailable,
        clock
      ),
      preserveHost: upstream.preserveHost,
      path: upstreamPath(api),
      timeoutMs: x => x.operation?.timeoutMs ?? ofApi,
      edit:
        edits === null && strips === null
          ? null
          : (x, pairs) => {
              if (strips !== null) strips(x, pairs)
              if (edits !== null) edits(x, pairs)
            }
    }
    return {
      run(x) {
        proxy.forward(x, plan)
        return ANSWERED
      }
    }
  }
}

function target({ protocol, hostname, port, host, path }: ApiTarget, tls: TlsProfile | null): Target {
  return {
    tls,
    hostname,
    port,
    origin: `${protocol}//${host}`,
    authority: host,
    base: path
  }
}

/** The listen path goes or stays; dot segments are resolved already; everything else is as the client wrote it. */
function upstreamPath({ strip, listenSegments, upstream }: Api): Plan['path'] {
  const count = listenSegments.length
  const preserves = upstream.preserveTrailingSlash
  return (x, { base }) => {
    const rest = !strip ? x.path : x.plain ? x.rest : behindSegments(x.path, count)
    if (rest === '/') return (preserves && x.path.endsWith('/')) || base === '' ? `${base}/` : base
    return base + rest
  }
}
