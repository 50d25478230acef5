import { writeFileSync } from 'node:fs'
import type { Socket } from 'node:net'
import { setTimeout as pause } from 'node:timers/promises'
import { cpuTime, memory, writeCalls } from '../usage.ts'
import { type Source, source } from './feeding.ts'
import { FIRST_PROBE, type Job, type Received } from './job.ts'
import { open } from './socket.ts'
import { Tally } from './tally.ts'

/*
 * Holds all clients of a stream in one process, feeds the stream, and counts. Argument: a `Job` as JSON. It prints a line with
 * `"msg":"ready"` when the measurement begins; SIGTERM ends it early.
 */

const job = JSON.parse(process.argv[2]!) as Job
const { clients, feed, pid } = job
const tally = new Tally(job.to, clients)
const atOnce = 200
const QUIET_MS = 1_000
const FLOW_MS = 30_000
const DRAIN_MS = 5_000

let isOver = false
/** Wakes whoever waits for messages to arrive. */
let wake = () => {}
const told = new Promise<void>(resolve => process.once('SIGTERM', () => resolve()))
/** Messages that lie in the stream already. */
const backlog = feed === null ? (job.amount ?? 0) : 0
let sent = backlog
let refused = 0

const before = memory(pid).rss
const sockets = await connectAll()
if (backlog === 0) await pause(QUIET_MS)
const quiet = memory(pid).rss
const from = feed === null ? null : await source(feed)
if (from !== null) await flow(from)
const feeding = from === null ? Promise.resolve() : begin(from)
await Promise.race([pause(job.warmUp * 1000), told])
if (backlog > 0) await until(() => tally.total > 0, FLOW_MS)
const start = look()
console.log(JSON.stringify({ msg: 'ready', gateway: '' }))
await measured()
const end = look()
isOver = true
wake()
await feeding
if (job.isChecked) await until(() => tally.absent(sent) === 0, DRAIN_MS)
write()
for (const socket of sockets) socket.destroy()
await from?.close()
process.exit(0)

async function connectAll(): Promise<Socket[]> {
  const url = new URL(job.url)
  const all: Socket[] = []
  for (let first = 0; first < clients; first += atOnce) {
    const count = Math.min(atOnce, clients - first)
    all.push(
      ...(await Promise.all(Array.from({ length: count }, (_, i) => open(url, job.transport, first + i, tally))))
    )
  }
  return all
}

/** A stream that has just got its clients may still be on its way to the broker: sends probes until they come. */
async function flow(to: Source): Promise<void> {
  const wanted = job.to === 'each' ? clients : 1
  const deadline = performance.now() + FLOW_MS
  for (let probe = FIRST_PROBE; tally.flowing < wanted; probe++) {
    if (performance.now() > deadline) throw new Error(`only ${tally.flowing} of ${wanted} clients get messages`)
    await to.send(probe, 1)
    await pause(100)
  }
}

function begin(to: Source): Promise<void> {
  if ('rate' in feed!) return hold(to, feed.rate)
  return keepUp(to, feed!.window, feed!.amount ?? Number.POSITIVE_INFINITY)
}

/** Sends as messages arrive. */
async function keepUp(to: Source, window: number, amount: number): Promise<void> {
  const low = window / 2
  tally.onRead = () => {
    if (sent - tally.done <= low) wake()
  }
  while (!isOver && sent < amount) {
    if (sent - tally.done > low) {
      await new Promise<void>(resolve => {
        wake = resolve
      })
      continue
    }
    const count = Math.min(amount - sent, Math.max(1, Math.floor(window - (sent - tally.done))))
    sent += count
    await to.send(sent - count, count).catch(() => {
      refused += count
    })
  }
}

/** Sends at the times of the rate, however long the earlier ones take. A message counts as sent when it was due. */
async function hold(to: Source, rate: number): Promise<void> {
  const all = Math.ceil((job.warmUp + job.seconds + 60) * rate)
  const times = new Float64Array(all)
  const skipped = Math.ceil(job.warmUp * rate)
  const first = performance.now()
  for (let i = 0; i < all; i++) times[i] = i < skipped ? Number.NaN : first + (i * 1000) / rate
  tally.sentAt = times
  const under = new Set<Promise<void>>()
  while (!isOver) {
    const due = Math.min(all, Math.floor(((performance.now() - first) * rate) / 1000) + 1)
    for (; sent < due; sent++) {
      const one = to.send(sent, 1).catch(() => {
        refused++
      })
      under.add(one)
      void one.then(() => under.delete(one))
    }
    await pause(1)
  }
  await Promise.all(under)
}

async function measured(): Promise<void> {
  const { amount } = job
  if (amount === undefined) await Promise.race([pause(job.seconds * 1000), told])
  else await until(() => tally.total >= amount, job.seconds * 1000)
}

async function until(is: () => boolean, ms: number): Promise<void> {
  const deadline = performance.now() + ms
  while (!is() && performance.now() < deadline) await pause(5)
}

function look() {
  const { user, system } = process.cpuUsage()
  return {
    at: performance.now(),
    total: tally.total,
    cpu: cpuTime(pid),
    writes: writeCalls(pid),
    own: user + system,
    rss: memory(pid).rss
  }
}

function write(): void {
  const ms = end.at - start.at
  const received: Received = {
    messages: end.total - start.total,
    seconds: ms / 1000,
    cpu: end.cpu - start.cpu,
    writes: end.writes - start.writes,
    before,
    quiet,
    rss: end.rss,
    least: tally.counts.reduce((a, b) => Math.min(a, b)),
    most: tally.counts.reduce((a, b) => Math.max(a, b)),
    missing: job.isChecked ? tally.absent(sent) : 0,
    repeated: job.isChecked ? tally.repeated : 0,
    lost: tally.gone,
    ...tally.latency(),
    refused,
    busy: (end.own - start.own) / 1000 / ms
  }
  writeFileSync(job.report, JSON.stringify(received))
}
