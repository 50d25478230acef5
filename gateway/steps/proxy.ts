import type { Api, Target as ApiTarget, Authentication } from '../api.ts'
import { ANSWERED, type Exchange } from '../exchange.ts'
import { behindSegments } from '../paths.ts'
import type { Plan } from '../proxy/proxy.ts'
import { Targets } from '../proxy/targets.ts'
import type { Target } from '../proxy/upstream.ts'
import { withoutCookie, withoutQuery } from '../values.ts'
import type { Step } from './step.ts'
import { requestEdits } from './transformHeaders.ts'

/** The step that answers: hands the request to the upstream. */
export const proxy: Step = {
  name: 'proxy',
  make(api, { proxy, settings, clock }) {
    const { upstream } = api
    const echo = upstream.targets[0]!.protocol === 'svc:' ? target(upstream.targets[0]!) : null
    const edits = requestEdits(api)
    const { authentication } = api
    const strips = authentication?.strip ? stripCredential(authentication) : null
    const ofApi = upstream.timeoutMs ?? settings.proxy_default_timeout * 1000
    const plan: Plan = {
      echo,
      targets: new Targets(
        upstream.targets.map(each => ({ target: target(each), weight: each.weight })),
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

function target({ protocol, hostname, port, host, path }: ApiTarget): Target {
  const secure = protocol === 'https:'
  return {
    secure,
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

/** `stripAuthorizationData`: every place where a credential may stand is emptied. */
function stripCredential({ locations }: Authentication): (x: Exchange, pairs: string[]) => void {
  return (x, pairs) => {
    for (const { in: place, name } of locations) {
      if (place === 'query') x.query = withoutQuery(x.query, name)
      else
        for (let i = pairs.length - 2; i >= 0; i -= 2) {
          const lower = pairs[i]!.toLowerCase()
          if (place === 'header' ? lower !== name : lower !== 'cookie') continue
          const kept = place === 'header' ? '' : withoutCookie(pairs[i + 1]!, name)
          if (kept === '') pairs.splice(i, 2)
          else pairs[i + 1] = kept
        }
    }
  }
}
