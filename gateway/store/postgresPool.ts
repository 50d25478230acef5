import pg from 'pg'
import type { Clock, Log } from '../../config/world.ts'
import { Full, Unavailable } from './store.ts'

/** Cells as PostgreSQL writes them. */
export type Row = readonly (string | null)[]
/** Runs one statement; one with a name is prepared once a connection. */
export type Run = (text: string, values?: readonly unknown[], name?: string) => Promise<readonly Row[]>

/** The database cannot be used, and waiting would not help. */
export class Refused extends Error {}

export interface PoolGiven {
  readonly url: string
  readonly size: number
  readonly clock: Clock
  readonly log: Log
}

export interface Pool {
  /** `host:port/database`, for messages. */
  readonly where: string
  /**
   * One connection for several statements; a failure ends the connection, and with it the transaction. Fails at once while
   * the server is away, but for one call at a time that tries.
   * @param ms how long one statement may take
   * @throws Unavailable; Refused and whatever else `work` throws itself
   */
  session<T>(ms: number, work: (run: Run) => Promise<T>): Promise<T>
  close(): Promise<void>
}

/** Wait for a connection at most. */
const MOST_WAITING = 2_000
const CONNECT_MS = 2_500
/** How long the server may be unreachable at start, and how long to wait between two attempts. */
const START_MS = 30_000
const AGAIN_MS = 500
/** What the server refuses is logged so often at most. */
const AGAIN_TOLD_MS = 60_000
/**
 * Every statement has an index to walk along. The planner must not find other ways where it knows too little: plans that
 * were prepared when the tables were empty live on, and after a large import nothing has counted the rows yet. The bound
 * for transactions that idle frees the others from a process that stands still while it holds the lock of commits.
 */
const habits = `
  SET jit = off; SET enable_seqscan = off; SET enable_bitmapscan = off; SET enable_hashjoin = off;
  SET enable_mergejoin = off; SET statement_timeout = '60s'; SET lock_timeout = '5s';
  SET idle_in_transaction_session_timeout = '15s'; SET client_min_messages = 'error';
  SELECT set_config('synchronous_commit', 'on', false) WHERE current_setting('synchronous_commit') = 'off'`
/** What passes by itself: connection exceptions, too many connections, a server that starts or stops. */
const passing = /^(?:08|53|57P)/
const diskFull = '53100'

/**
 * Connections to a server that answers: tries for 30 seconds to reach it.
 * @throws Error in one line without the password
 */
export async function openPool({ url, size, clock, log }: PoolGiven): Promise<Pool> {
  const where = placeOf(url)
  const pool = new pg.Pool({
    connectionString: url,
    max: size,
    connectionTimeoutMillis: CONNECT_MS,
    idleTimeoutMillis: 60_000,
    keepAlive: true,
    keepAliveInitialDelayMillis: 10_000,
    application_name: 'svc-gateway',
    types: { getTypeParser: () => (text: string) => text },
    onConnect: client => client.query(habits) as unknown as undefined
  })
  // Of connections that idle: who asks next notices what matters.
  pool.on('error', cause => log.debug('a connection to the database ended', { where, cause: textOf(cause) }))

  const waiting: { go(): void; fail(error: Unavailable): void }[] = []
  let free = size
  let closed = false
  let isAway = false
  let isTrying = false
  let toldAt = Number.NEGATIVE_INFINITY

  function away(cause: unknown): Unavailable {
    const error = new Unavailable(`${where}: ${textOf(cause)}`)
    if (!isAway && !closed) log.error('the database is away', { where, cause: textOf(cause) })
    isAway = true
    for (const one of waiting.splice(0)) one.fail(error)
    return error
  }

  /** A server that answers, and says no: what does not pass by itself somebody must hear of, but not with every call. */
  function tell(cause: unknown): void {
    const { code = '' } = cause as pg.DatabaseError
    const isPassing = passing.test(code) && code !== diskFull
    if (!(cause instanceof pg.DatabaseError) || isPassing || clock.now() - toldAt < AGAIN_TOLD_MS) return
    toldAt = clock.now()
    log.error('the database refuses', { where, code, cause: textOf(cause) })
  }

  async function connect(): Promise<pg.PoolClient> {
    if (closed) throw new Unavailable('the store is closed')
    const attempt = isAway
    if (attempt && isTrying) throw new Unavailable(`${where} is away`)
    if (attempt) isTrying = true
    try {
      if (free > 0) free--
      else if (waiting.length >= MOST_WAITING) throw new Unavailable('too many calls wait for the database')
      else await new Promise<void>((go, fail) => waiting.push({ go, fail }))
      try {
        const client = await pool.connect()
        if (isAway) log.info('the database is back', { where })
        isAway = false
        return client
      } catch (cause) {
        release()
        // Others have taken all connections of a server that works.
        if ((cause as pg.DatabaseError).code === '53300') throw new Unavailable(`${where}: ${textOf(cause)}`)
        throw away(cause)
      }
    } finally {
      if (attempt) isTrying = false
    }
  }

  function release(): void {
    const next = waiting.shift()
    if (next === undefined) free++
    else next.go()
  }

  async function session<T>(ms: number, work: (run: Run) => Promise<T>): Promise<T> {
    const client = await connect()
    // A connection that breaks while no statement is under way.
    const broken = () => {}
    client.on('error', broken)
    let failure: unknown
    try {
      return await work(async (text, values, name) => {
        try {
          return await query(client, ms, { text, values: values as unknown[], name, rowMode: 'array' })
        } catch (cause) {
          failure = cause
          if (cause instanceof Late) throw away(cause)
          tell(cause)
          const Failure = (cause as pg.DatabaseError).code === diskFull ? Full : Unavailable
          throw new Failure(`${where}: ${textOf(cause)}`, { cause })
        }
      })
    } catch (cause) {
      failure ??= cause
      throw cause
    } finally {
      client.off('error', broken)
      client.release(failure !== undefined)
      release()
    }
  }

  const made: Pool = {
    where,
    session,
    async close() {
      if (closed) return
      closed = true
      for (const one of waiting.splice(0)) one.fail(new Unavailable('the store is closed'))
      await pool.end()
    }
  }
  try {
    await reach(pool, where, clock, log)
  } catch (cause) {
    await made.close()
    throw cause
  }
  return made
}

/** Resolves once a connection stands. @throws Refused */
async function reach(pool: pg.Pool, where: string, clock: Clock, log: Log): Promise<void> {
  const until = clock.now() + START_MS
  for (let isFirst = true; ; isFirst = false) {
    try {
      const client = await pool.connect()
      client.release()
      return
    } catch (cause) {
      const { code, message } = cause as pg.DatabaseError
      const isPassing = cause instanceof pg.DatabaseError ? passing.test(code ?? '') : isOfNetwork(code, message)
      if (!isPassing || clock.now() >= until) throw new Refused(`${where}: ${textOf(cause)}`)
      if (isFirst) log.warn('the database cannot be reached, trying for 30 s', { where, cause: textOf(cause) })
    }
    await new Promise<void>(resolve => clock.after(AGAIN_MS, resolve))
  }
}

const network = [
  'ECONNREFUSED',
  'ECONNRESET',
  'ENOTFOUND',
  'EAI_AGAIN',
  'ETIMEDOUT',
  'EHOSTUNREACH',
  'ENETUNREACH',
  'EPIPE'
]

function isOfNetwork(code: string | undefined, message: string): boolean {
  return (
    (code !== undefined && network.includes(code)) ||
    code === 'ENOENT' ||
    /^Connection terminated|timeout/.test(message)
  )
}

class Late extends Error {}

async function query(client: pg.PoolClient, ms: number, config: pg.QueryArrayConfig): Promise<readonly Row[]> {
  let timer: NodeJS.Timeout | undefined
  const late = new Promise<never>((_, reject) => {
    timer = setTimeout(() => reject(new Late(`no answer within ${ms / 1000} s`)), ms)
  })
  try {
    // Several statements in one text have several results: the last counts.
    const result = (await Promise.race([client.query<(string | null)[]>(config), late])) as
      | pg.QueryArrayResult<(string | null)[]>
      | pg.QueryArrayResult<(string | null)[]>[]
    return Array.isArray(result) ? result.at(-1)!.rows : result.rows
  } finally {
    clearTimeout(timer)
  }
}

/** @throws Refused when it is no address of a database; the message does not hold it, for its password */
function placeOf(url: string): string {
  if (!/^postgres(?:ql)?:\/\//.test(url)) throw new Refused('storage.documents.url must begin with postgres://')
  try {
    const { host, port, database } = new pg.Client({ connectionString: url })
    return `${host}:${port}/${database ?? ''}`
  } catch {
    throw new Refused('storage.documents.url cannot be read: postgres://user:password@host:port/database')
  }
}

/** One line. */
function textOf(cause: unknown): string {
  const { message, code, errors } = cause as AggregateError & { code?: string }
  // Several addresses of one name were tried in vain.
  if (message === '' && errors?.length > 0) return textOf(errors[0])
  return (message || code || 'unknown failure').replaceAll(/\s+/g, ' ')
}
