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

export interface Part {
  readonly componentType: string
  /** While it fails, this process should get no requests. */
  readonly isNeeded: boolean
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
    health.parts.documents = part(failure, clock)
    if (!stopped) cancel = clock.after(failure === null ? LOOK_MS : FAILING_LOOK_MS, () => void look())
  }
  await look()
  return () => {
    stopped = true
    cancel()
  }
}

/** A part that keeps data, as it stands now. */
export function part(failure: string | null, clock: Pick<Clock, 'now'>, isNeeded = true): Part {
  return { componentType: 'datastore', isNeeded, failure, time: new Date(clock.now()).toISOString() }
}

/** Answers a probe; false: the path is none. */
export function probes(health: Health): (req: IncomingMessage, res: ServerResponse, path: string) => boolean {
  return (req, res, path) => {
    if (path.length !== 6 || (path !== '/hello' && path !== '/ready')) return false
    if (req.method !== 'GET' && req.method !== 'HEAD')
      send(res, 405, { status: 'error', message: 'Method Not Allowed' }, { Allow: 'GET, HEAD' })
    else if (path === '/hello') send(res, 200, hello(health))
    else {
      const failing = health.notReady || Object.values(health.parts).find(isMissed)?.failure
      if (failing) send(res, 503, { status: 'error', message: failing })
      else send(res, 200, hello(health))
    }
    return true
  }
}

function isMissed({ isNeeded, failure }: Part): boolean {
  return isNeeded && failure !== null
}

function hello({ version, parts }: Health): unknown {
  const failing = Object.values(parts).filter(({ failure }) => failure !== null)
  const isFailing = failing.some(isMissed) || failing.length === Object.keys(parts).length
  const status = failing.length === 0 ? 'pass' : isFailing ? 'fail' : 'warn'
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
