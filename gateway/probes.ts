import type { IncomingMessage, ServerResponse } from 'node:http'

/** What `/hello` and `/ready` tell (semantics §2.7). */
export interface Health {
  readonly version: string
  /** Empty while the process serves; otherwise why it should get no requests. */
  notReady: string
  /** By part: null while it works, otherwise what fails. */
  readonly parts: Record<
    string,
    { readonly componentType: string; readonly failure: string | null; readonly time: string }
  >
}

/** Answers a probe; false: the path is none. */
export function probes(health: Health): (req: IncomingMessage, res: ServerResponse, path: string) => boolean {
  return (req, res, path) => {
    if (path.length !== 6 || (path !== '/hello' && path !== '/ready')) return false
    if (req.method !== 'GET' && req.method !== 'HEAD')
      send(res, 405, { status: 'error', message: 'Method Not Allowed' }, { Allow: 'GET, HEAD' })
    else if (path === '/hello') send(res, 200, hello(health))
    else if (health.notReady === '') send(res, 200, hello(health))
    else send(res, 503, { status: 'error', message: health.notReady })
    return true
  }
}

function hello({ version, parts }: Health): unknown {
  const failing = Object.values(parts).filter(part => part.failure !== null).length
  const status = failing === 0 ? 'pass' : failing === Object.keys(parts).length ? 'fail' : 'warn'
  const details = Object.fromEntries(
    Object.entries(parts).map(([name, { componentType, failure, time }]) => [
      name,
      {
        status: failure === null ? 'pass' : 'fail',
        componentType,
        time,
        ...(failure === null ? {} : { output: failure })
      }
    ])
  )
  return { status, version: `v${version}`, description: 'svc gateway', details }
}

function send(res: ServerResponse, status: number, value: unknown, headers: Record<string, string> = {}): void {
  const body = Buffer.from(JSON.stringify(value))
  res.writeHead(status, {
    'Content-Type': 'application/json',
    'Content-Length': body.length,
    'Cache-Control': 'no-store',
    ...headers
  })
  res.end(body)
}
