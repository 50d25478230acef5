import { randomBytes } from 'node:crypto'
import { setImmediate as nextTurn } from 'node:timers/promises'
import { parentPort, workerData } from 'node:worker_threads'
import { type Lines, linesTo } from '../../config/lines.ts'
import { type Fields, type Log, systemClock } from '../../config/world.ts'
import type { Streams } from '../../streams/streams.ts'
import { changesLocal } from '../changes/changesLocal.ts'
import { compileRoute } from '../compile.ts'
import type { CounterState } from '../counters/counters.ts'
import { countersMemory } from '../counters/countersMemory.ts'
import { accepted } from '../documents/files.ts'
import { eventBus, logEvents } from '../events.ts'
import { ANSWERED, type Route } from '../exchange.ts'
import { isControl, isProbe } from '../inner.ts'
import { dataPlane } from '../plane.ts'
import { openCounters } from '../storage.ts'
import { trustAuthorities } from '../tls/authorities.ts'
import { listenerTls } from '../tls/listenerTls.ts'
import { Tickets } from '../tls/tickets.ts'
import { vaultOf } from '../vault.ts'
import { Calls } from './calls.ts'
import { relay } from './relay.ts'
import { storeOfMain } from './storeOfMain.ts'
import type { Given, LogLine, Question, Task } from './words.ts'

/** A worker's entry: a data plane whose documents, writing and streams are the main thread's (`threads.ts`). */

/** Until what was handed to the relay is on its way. */
const PASSING_TURNS = 4

const given = workerData as Given
const settings = frozen(given.settings)
trustAuthorities(settings.gateway.ca_file)
const clock = systemClock
const random = { bytes: randomBytes }
const main = new Calls<Question, Task>(parentPort!, perform)
const log = logOf(linesOf('log'))
const output = linesOf('access')
const changes = changesLocal()
/** Changes that are being taken over. */
const underWay = new Set<Promise<void>>()
// From here on every change is heard; before anything was read there is nothing to take over.
parentPort!.on('message', word => main.take(word))
const events = eventBus(clock, log)
const stopEvents = logEvents(events, clock, log)
const closing: (() => unknown)[] = []
const { promise: built, resolve: hasBuilt } = Promise.withResolvers<void>()
const store = storeOfMain(main)
const counters =
  given.counters === null
    ? await openCounters({ settings, clock, log, random }, store, tellFailure, closing)
    : countersMemory({ clock, shared: given.counters, owner: given.number })
const plane = dataPlane({
  settings,
  store,
  vault: vaultOf(settings.gateway, random),
  changes,
  counters,
  events,
  streams: elsewhere(),
  clock,
  log,
  random,
  output,
  route: (api, tools) => (api.streams === null ? compileRoute(api, tools) : relayed(api)),
  onApis() {}
})
const { pass, close: closeRelay } = relay(given.relay, plane.serverTools.endings)
const isShared = settings.gateway.control_api_port === 0
const tls =
  given.tickets === null
    ? null
    : listenerTls({
        settings: settings.gateway,
        certificates: plane.certificates,
        apis: plane.apis,
        tickets: new Tickets(given.tickets),
        thread: given.number,
        clock,
        log
      })
const server = plane.server(
  (x, normal) => {
    if (!isProbe(normal) && !(isShared && isControl(normal))) return false
    pass(x)
    return true
  },
  tls === null ? {} : { tls }
)
hasBuilt()

function perform(task: Task): unknown {
  switch (task.is) {
    case 'changes':
      return takeOver(task.changes)
    case 'listen':
      // What was written while this thread started counts before its first request.
      return Promise.allSettled([...underWay]).then(() => server.listen(task.port, task.address, 'shared'))
    case 'load':
      return built.then(() => plane.load(accepted(task.files)))
    case 'dump':
      return counters.dump(task.limit)
    case 'announceEnd':
      return server.announceEnd()
    case 'stopListening':
      return stopListening()
    case 'drain':
      return drain(task.ms)
  }
}

function takeOver(list: Parameters<typeof changes.publish>[0]): Promise<void> {
  const taken = changes.publish(list)
  underWay.add(taken)
  const end = () => void underWay.delete(taken)
  taken.then(end, end)
  return taken
}

async function stopListening(): Promise<void> {
  server.stopListening()
  // A connection to the main thread is there a turn after it was asked for, and what waits for it leaves then.
  for (let turn = 0; turn < PASSING_TURNS; turn++) await nextTurn()
}

function tellFailure(failure: string | null): void {
  main.ask({ is: 'counters', failure }).catch(() => {})
}

async function drain(ms: number): Promise<readonly CounterState[]> {
  await server.drain(ms)
  closeRelay()
  stopEvents()
  tls?.close()
  await plane.close()
  // Counters outside of the process have a ledger of their own.
  const states = given.counters === null ? [] : await counters.dump()
  for (const close of closing.toReversed()) await close()
  await log.settled()
  return states
}

/** Streaming APIs are the main thread's, with their authentication and limits: there all clients of a stream meet. */
function relayed(api: Route['api']): Route {
  return {
    api,
    runs: [
      x => {
        pass(x)
        return ANSWERED
      }
    ],
    heads: [],
    after: []
  }
}

function elsewhere(): Streams {
  return {
    apply() {},
    handle() {
      throw new Error('streams are the main thread’s')
    },
    calls: () => [],
    end() {},
    status: () => [],
    async drain() {}
  }
}

/** Batches, each once the last one was taken. */
function linesOf(of: 'access' | 'log'): Lines {
  return linesTo(
    (bytes, done) =>
      main.ask({ is: 'lines', of, text: bytes.toString() }).then(
        () => done(null, bytes.length),
        cause => done(cause, 0)
      ),
    cause => of === 'access' && log.error('access log', { cause })
  )
}

function logOf(lines: Lines): Log & Pick<Lines, 'settled'> {
  const line = (level: LogLine[0], msg: string, fields: Fields = {}) => {
    lines.write(`${JSON.stringify([level, msg, fields] satisfies LogLine)}\n`)
    // All that came while a batch was on its way leave with the next one.
    void lines.settled()
  }
  return {
    debug() {},
    info: (msg, fields) => line('info', msg, fields),
    warn: (msg, fields) => line('warn', msg, fields),
    error: (msg, fields) => line('error', msg, fields),
    settled: ms => lines.settled(ms)
  }
}

function frozen<T>(value: T): T {
  if (typeof value !== 'object' || value === null) return value
  for (const inner of Object.values(value)) frozen(inner)
  return Object.freeze(value)
}
