import type { IncomingMessage, ServerResponse } from 'node:http'
import type { Clock } from '../config/world.ts'
import type { Store } from './store/store.ts'

/** What `/hello` and `/ready` tell (semantics §2.7). */
export interface Health {
  readonly version: string
  /** Empty while the process serves; otherwise why it should get no requests. */
  notReady: string
  /** By part: null while it works, otherwise what fails. */
  readonly parts: Record<string, Part>
}

interface Part {
  readonly componentType: string
  readonly failure: string | null
  /** When it was last looked at, ISO 8601 UTC. */
  readonly time: string
}

/** Between two looks at the parts: a probe only tells what is known. */
const LOOK_MS = 10_000
/** While a part fails: whoever waits for it should not wait longer than it takes. */
const FAILING_LOOK_MS = 1_000

/** Looks at the store now and then; the answer ends it. */
export async function watch(health: Health, store: Store, clock: Clock): Promise<() => void> {
  let cancel = () => {}
  let stopped = false
  const look = async () => {
    const failure = await Promise.resolve()
      .then(() => store.sequence())
      // Reading may go on where no write can succeed, as when the folder was moved away.
      .then(() => store.commit([]))
      .then(
        () => null,
        () => 'Document store not available'
      )
    health.parts.documents = { componentType: 'datastore', failure, time: new Date(clock.now()).toISOString() }
    if (!stopped) cancel = clock.after(failure === null ? LOOK_MS : FAILING_LOOK_MS, () => void look())
  }
  await look()
  return () => {
    stopped = true
    cancel()
  }
}

/** Answers a probe; false: the path is none. */
export function probes(health: Health): (req: IncomingMessage, res: ServerResponse, path: string) => boolean {
  return (req, res, path) => {
    if (path.length !== 6 || (path !== '/hello' && path !== '/ready')) return false
    if (req.method !== 'GET' && req.method !== 'HEAD')
      send(res, 405, { status: 'error', message: 'Method Not Allowed' }, { Allow: 'GET, HEAD' })
    else if (path === '/hello') send(res, 200, hello(health))
    else {
      const failing = health.notReady || Object.values(health.parts).find(part => part.failure !== null)?.failure
      if (failing) send(res, 503, { status: 'error', message: failing })
      else send(res, 200, hello(health))
    }
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
