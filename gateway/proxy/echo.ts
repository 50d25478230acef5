import type { Exchange } from '../exchange.ts'
import { type Refusal, refusals } from '../refusals.ts'
import { RequestBody } from './body.ts'
import { requestPairs } from './headers.ts'
import type { Plan, ProxyTools } from './plan.ts'

/** The echo shows at most this much of a body. */
const SHOWN_BYTES = 65_536

/** The built-in upstream `svc://echo`: answers with what an upstream would have received, as JSON. */
export function echo(x: Exchange, plan: Plan, requestId: string, tools: ProxyTools, mostBytes: number): void {
  const { endings, clock, settings } = tools
  if (x.bodyLength > mostBytes) return endings.refuse(x, refusals.bodyTooLarge)
  const pairs = requestPairs(x, 'echo', requestId)
  if (plan.edit !== null) plan.edit(x, pairs)
  if (x.body !== null) return answer(x, plan, pairs, x.body.bytes.subarray(0, SHOWN_BYTES).toString())
  if (x.bodyLength === 0) return answer(x, plan, pairs, '')
  const shown: Buffer[] = []
  let kept = 0
  let refused = false
  const refuse = (refusal: Refusal) => {
    cancel()
    refused = true
    x.res.linger()
    endings.refuse(x, refusal)
  }
  const readMs = settings.http_server_options.read_timeout * 1000
  const cancel = readMs > 0 ? clock.after(readMs, () => refuse(refusals.bodyTimeout)) : () => {}
  const body = new RequestBody(x.req, x.res, x.bodyLength, x.expects, mostBytes, () => refuse(refusals.bodyTooLarge))
  body.start({
    chunk(data) {
      if (kept < SHOWN_BYTES) shown.push(data.subarray(0, SHOWN_BYTES - kept))
      kept += data.length
      return true
    },
    end() {
      cancel()
      if (!refused && !x.gone) answer(x, plan, pairs, Buffer.concat(shown).toString('utf8'))
    }
  })
}

function answer(x: Exchange, plan: Plan, pairs: readonly string[], body: string): void {
  const headers: Record<string, string | string[]> = Object.create(null)
  for (let i = 0; i < pairs.length; i += 2) {
    const name = pairs[i]!.toLowerCase()
    const known = headers[name]
    headers[name] = known === undefined ? pairs[i + 1]! : [known, pairs[i + 1]!].flat()
  }
  const json = Buffer.from(
    `${JSON.stringify({ method: x.method, path: plan.path(x, plan.echo!) + x.query, headers, body }, null, 2)}\n`
  )
  const head = ['Content-Type', 'application/json', 'Content-Length', String(json.length)]
  x.upstreamMs = 0
  const { heads } = x.route
  for (let i = 0; i < heads.length; i++) heads[i]!(x, 200, head)
  x.bytes = json.length
  x.res.writeHead(200, head)
  x.res.end(json)
}
