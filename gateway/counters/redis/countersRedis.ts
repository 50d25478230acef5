import { randomBytes } from 'node:crypto'
import type { Clock, Log, Random } from '../../../config/world.ts'
import { causeOf } from '../../redis/faults.ts'
import type { RedisLink } from '../../redis/redis.ts'
import type { Charge, CounterState, Standing, Verdict } from '../counters.ts'
import { type Remote, RemoteFault, type Taken } from '../remote.ts'
import { chargeScript } from './chargeScript.ts'
import { forgotten, type Listening } from './forgotten.ts'
import { aliveScript, forgetScript, giveBackScript } from './lua.ts'
import { merging } from './merging.ts'
import { keysOf, type Plan, planOf } from './plan.ts'
import { Quotas } from './quotas.ts'

export interface CountersRedisOptions {
  readonly link: RedisLink
  readonly clock: Pick<Clock, 'now'>
  readonly log: Pick<Log, 'warn'>
  readonly random?: Random
  /** What the document store holds of a quota that Redis has lost or never had; null: nothing. */
  readonly ledger: (id: string) => CounterState | null | Promise<CounterState | null>
  /** Of the contract test alone: the moment in place of the server's. */
  readonly moment?: () => number
}

/** Charge or look. */
type Mode = 'c' | 'l'

const LIVES_MS = 10_000
const TELL_MS = 60_000
/** Ids in one message and one script. */
const FORGET_AT_ONCE = 500

/**
 * Counters in Redis or Valkey, by its clock: exact over all processes. One call a charge on a single server; in a cluster
 * one for each group of charges that lie next to each other and in one place (the key's, the API's), in order, and what
 * the earlier calls took is given back when a later one refuses or fails.
 */
export function countersRedis(options: CountersRedisOptions): Remote {
  const { link, clock, log, ledger, random = { bytes: randomBytes } } = options
  const { prefix } = link
  const moment = options.moment === undefined ? () => '0' : () => String(options.moment!())
  const runCharge = link.script(chargeScript)
  const runGiveBack = link.script(giveBackScript)
  const runForget = link.script(forgetScript)
  const runAlive = link.script(aliveScript)
  const merge = merging({ link, moment, ledger })
  const plans = new WeakMap<Charge, Plan>()
  const quotas = new Quotas()
  const { channel, keep, listen } = forgotten(link)
  const members = `${prefix}:members`
  const me = random.bytes(12).toString('base64url')
  const endings: (() => void)[] = []
  const listenings: Listening[] = []
  let toldAt = Number.NEGATIVE_INFINITY
  let broken = 0

  function plan(limit: Charge): Plan {
    let made = plans.get(limit)
    if (made === undefined) {
      made = planOf(limit, prefix)
      plans.set(limit, made)
    }
    return made
  }

  function found(count: number): void {
    broken += count
    if (clock.now() - toldAt < TELL_MS) return
    log.warn('counters in Redis were unreadable or of another type and begin anew', { count: broken })
    toldAt = clock.now()
    broken = 0
  }

  /** Where the charges from `from` on that go into one call end. */
  function endOf(limits: readonly Charge[], from: number): number {
    let i = from + 1
    next: for (; i < limits.length; i++) {
      if (link.isCluster && plan(limits[i]!).place !== plan(limits[from]!).place) break
      // One script reads all before it writes: the same counter twice would be read twice.
      for (let j = from; j < i; j++) if (limits[j]!.id === limits[i]!.id) break next
    }
    return i
  }

  function ask(head: string, limits: readonly Charge[]): Promise<string> {
    const keys: string[] = []
    const args = [head]
    for (let i = 0; i < limits.length; i++) {
      const { key, text } = plan(limits[i]!)
      keys.push(key)
      args.push(text)
    }
    for (let i = 0; i < limits.length; i++) {
      const { list } = plan(limits[i]!)
      if (list !== null) keys.push(list)
    }
    return runCharge(keys, args) as Promise<string>
  }

  function call(mode: Mode, limits: readonly Charge[], units: number, most: readonly number[] | null) {
    const rest = most === null ? '' : ` ${most.map(n => Math.floor(n)).join(' ')}`
    return ask(`${mode} ${units} ${moment()} 0${rest}`, limits).then(text => {
      const answer = numbersOf(text)
      if (answer[1] === -2) return filled(mode, limits, answer, `${mode} ${units} ${moment()} 1${rest}`)
      return takenOf(mode, limits, answer)
    }, fault)
  }

  /** Quotas that are not in Redis: what the ledger has of them goes there first. */
  async function filled(
    mode: Mode,
    limits: readonly Charge[],
    answer: readonly number[],
    head: string
  ): Promise<Taken> {
    try {
      await merge.fill(answer.slice(3).map(index => limits[index]!.id))
      return takenOf(mode, limits, numbersOf(await ask(head, limits)))
    } catch (error) {
      return fault(error)
    }
  }

  function takenOf(mode: Mode, limits: readonly Charge[], answer: readonly number[]): Taken {
    const standings: Standing[] = []
    const taken: number[] = []
    if (answer[2]! > 0) found(answer[2]!)
    for (let i = 0, a = 3; a < answer.length; i++, a += 6) {
      const smoothed = answer[a + 3]!
      standings.push({
        allowed: answer[a]!,
        remaining: answer[a + 1]!,
        reset: answer[a + 2]!,
        smoothed: smoothed === 0 ? null : smoothed === 1 ? 'up' : 'down'
      })
      taken.push(answer[a + 4]!)
      const limit = limits[i]!
      if (mode === 'c' && limit.kind === 'quota') quotas.stands(limit.id, plan(limit), answer[a + 5]!, answer[a + 2]!)
    }
    return { refused: answer[1]!, standings, now: answer[0]!, taken }
  }

  /** Group after group. */
  async function several(mode: Mode, limits: readonly Charge[], units: number, most: readonly number[] | null) {
    const standings: Standing[] = []
    const taken: number[] = []
    const at: number[] = []
    let now = 0
    for (let from = 0, to = 0; from < limits.length; from = to) {
      to = endOf(limits, from)
      let verdict: Taken
      try {
        verdict = await call(mode, limits.slice(from, to), units, most === null ? null : most.slice(from, to))
      } catch (error) {
        await undo(from)
        throw error
      }
      now = verdict.now
      standings.push(...verdict.standings)
      taken.push(...verdict.taken)
      at.push(...verdict.taken.map(() => now))
      if (verdict.refused < 0) continue
      await undo(from)
      return { refused: from + verdict.refused, standings, now, taken }
    }
    return { refused: -1, standings, now, taken }

    async function undo(before: number): Promise<void> {
      if (mode === 'l' || !link.isCluster) return
      await Promise.all(
        limits.slice(0, before).map(async (limit, i) => {
          try {
            await giveBack(limit, taken[i]!, at[i])
            standings[i]!.remaining += taken[i]!
            taken[i] = 0
          } catch {
            // Redis went away between the calls. They stay taken until the window ends.
          }
        })
      )
    }
  }

  async function giveBack(limit: Charge, units: number, at = 0): Promise<void> {
    const { key, list, text } = plan(limit)
    if (units < 1) return
    await runGiveBack(list === null ? [key] : [key, list], [moment(), text, units, at]).catch(fault)
  }

  return {
    charge(limits, units, most) {
      if (limits.length < 2 || endOf(limits, 0) === limits.length) return call('c', limits, units, most)
      return several('c', limits, units, most)
    },
    look(limits) {
      if (limits.length < 2 || endOf(limits, 0) === limits.length) return call('l', limits, 1, null).then(verdictOf)
      return several('l', limits, 1, null).then(verdictOf)
    },
    giveBack,
    async forget(ids) {
      const places = new Map<string, string[]>()
      for (const id of ids) {
        const place = link.isCluster ? keysOf(prefix, id)[0].slice(0, prefix.length + 25) : ''
        const known = places.get(place)
        if (known === undefined) places.set(place, [id])
        else known.push(id)
      }
      for (const same of places.values())
        for (let i = 0; i < same.length; i += FORGET_AT_ONCE) {
          const part = same.slice(i, i + FORGET_AT_ONCE)
          // Kept first: whoever is away meanwhile finds it, and whoever listens hears it when it is done.
          const message = await keep(part).catch(fault)
          await runForget(
            part.flatMap(id => keysOf(prefix, id)),
            [channel, message]
          ).catch(fault)
          quotas.forget(part)
        }
    },
    onForgotten(listener) {
      const listening = listen(ids => {
        if (ids !== null) quotas.drop(ids)
        listener(ids)
      })
      listenings.push(listening)
      endings.push(listening.end)
    },
    add: states => merge.add(states).catch(fault),
    restore: states => merge.restore(states).catch(fault),
    dump: limit => quotas.dump(limit),
    async alive() {
      const living = await runAlive([members], [me, LIVES_MS]).catch(fault)
      for (const { catchUp } of listenings) await catchUp()
      return Number(living)
    },
    get isConnected() {
      return link.isConnected
    },
    onConnected: listener => void endings.push(link.onConnected(listener)),
    async close() {
      for (const end of endings.splice(0)) end()
      // The others' shares grow at once and not after ten seconds.
      if (link.isConnected) await link.commands.zrem(members, me).catch(() => {})
    }
  }
}

/** One text is read in a third of the time that ioredis takes for as many numbers. */
function numbersOf(text: string): number[] {
  const numbers: number[] = []
  for (const part of text.split(' ')) numbers.push(Number(part))
  return numbers
}

function verdictOf({ refused, standings, now }: Taken): Verdict {
  return { refused, standings, now }
}

function fault(error: unknown): never {
  throw error instanceof RemoteFault ? error : new RemoteFault(causeOf(error))
}
