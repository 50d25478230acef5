import type { Clock, Log, Random } from '../../config/world.ts'
import type { Budget } from '../budget.ts'
import type { Call } from '../call.ts'
import { handshake } from '../clients/handshake.ts'
import type { Connections } from '../connections.ts'
import type { Output, Process } from '../connector.ts'
import type { Ending } from '../hub/hub.ts'
import type { Message } from '../message.ts'
import type { ProducerOptions } from '../options.ts'
import { nos } from '../refusals.ts'
import { Undelivered } from '../undelivered.ts'
import { Failures } from './answers.ts'
import { carried } from './carried.ts'
import { ENVELOPE, Frames } from './frames.ts'
import { Post } from './post.ts'
import type { Production } from './production.ts'
import type { Remembered } from './remembered.ts'

/** Makes a text of a message and the request it came with. */
export type Render = (message: Message | null, call: Call | null) => string

export interface ProducerGiven {
  readonly options: ProducerOptions
  /** Run over each message before it is sent. */
  readonly process: readonly Process[]
  readonly output: Output
  readonly connections: Connections
  readonly remembered: Remembered
  readonly budget: Budget
  readonly clock: Clock
  readonly log: Log
  readonly random: Random
  /** For logs, and what is remembered. */
  readonly api: string
  readonly stream: string
  readonly template: (text: string) => Render
}

/** The paths of one `http_server` input. */
export interface Producer {
  /** Answers the call: its body becomes messages. The router has checked its method. */
  post(call: Call): void
  /** Each frame becomes a message. */
  websocket(call: Call): void
  /** Messages delivered so far. */
  produced(): number
  /** Takes no more, lets what is under way end, and closes connections over this time. */
  close(why: Ending, spreadMs: number): Promise<void>
}

const PING_MS = 25_000
const SWEEP_MS = 5_000
/** How long bodies that are on their way may still take when the producer closes. */
const LAST_BODIES_MS = 1_000

export function producer(given: ProducerGiven): Producer {
  const { options, clock, log, connections, api, stream } = given
  const posts = new Set<Post>()
  const sockets = new Set<Frames>()
  let produced = 0
  let closing: Promise<void> | null = null
  let idle: (() => void) | null = null
  let cancelSweep: (() => void) | null = null
  let cancelPing: (() => void) | null = null

  const production: Production = {
    api,
    stream,
    options,
    process: given.process,
    output: given.output,
    remembered: given.remembered,
    budget: given.budget,
    clock,
    failures: new Failures(clock, log, { api_id: api, stream }),
    carried: carried(options),
    key: options.key === '' ? null : keyOf(given.template(options.key)),
    answerPairs: pairsOf(options.answerHeaders, given.template),
    get isClosing() {
      return closing !== null
    },
    counted(messages) {
      produced += messages
    }
  }
  const welcome = given.template(options.welcome)
  const want = { protocols: [ENVELOPE], maxPayload: options.maxBody, allowedOrigins: options.allowedOrigins }

  function over(post: Post): void {
    posts.delete(post)
    ended()
  }

  function ended(): void {
    if (posts.size === 0 && sockets.size === 0) idle?.()
  }

  function sweep(): void {
    const now = clock.now()
    for (const { intake } of posts) if (!intake.isOver) intake.hurry(now)
    cancelSweep = posts.size > 0 ? clock.after(SWEEP_MS, sweep) : null
  }

  function ping(): void {
    for (const frames of sockets) frames.ping()
    cancelPing = sockets.size > 0 ? clock.after(PING_MS, ping) : null
  }

  return {
    post(call) {
      if (closing !== null) return call.refuse(nos.draining)
      const post = new Post(production, call, over)
      posts.add(post)
      cancelSweep ??= clock.after(SWEEP_MS, sweep)
      post.start()
    },
    websocket(call) {
      if (closing !== null) return call.refuse(nos.draining)
      if (production.budget.isFull) return call.refuse(nos.budget)
      let frames: Frames | null = null
      const leave = connections.enter(call, why => frames?.close(why))
      if (typeof leave !== 'function') return call.refuse(leave)
      handshake(call, want, socket => {
        const opened = clock.now()
        socket.on('close', leave)
        frames = new Frames(production, call, socket, ({ messages, bytes, reason }) => {
          sockets.delete(frames!)
          log.info('stream connection ended', {
            api_id: api,
            stream,
            transport: 'websocket',
            client: call.client,
            duration_ms: clock.now() - opened,
            messages,
            bytes,
            reason
          })
          ended()
        })
        sockets.add(frames)
        cancelPing ??= clock.after(PING_MS, ping)
        frames.greet(welcome(null, call))
      })
      if (frames === null) leave()
    },
    produced: () => produced,
    close(why, spreadMs) {
      if (closing !== null) return closing
      closing = new Promise<void>(resolve => {
        idle = resolve
      }).then(() => {
        cancelSweep?.()
        cancelPing?.()
        cancelLast()
      })
      let wait = 0
      const step = spreadMs / Math.max(1, sockets.size)
      for (const frames of sockets) {
        if (wait === 0) frames.close(why)
        else clock.after(wait, () => frames.close(why))
        wait += step
      }
      const cancelLast = clock.after(Math.max(spreadMs, LAST_BODIES_MS), () => {
        for (const { intake } of posts) if (!intake.isOver) intake.stop(nos.draining)
      })
      ended()
      return closing
    }
  }
}

/** What cannot be worked out is the message's own fault; an empty text is no key. */
function keyOf(render: Render): Production['key'] {
  return (message, call) => {
    let text: string
    try {
      text = render(message, call)
    } catch (cause) {
      throw cause instanceof Undelivered
        ? cause
        : new Undelivered('invalid', 'the key of the message cannot be worked out', { cause })
    }
    return text === '' ? null : Buffer.from(text)
  }
}

function pairsOf(headers: Readonly<Record<string, string>>, template: ProducerGiven['template']) {
  const named = Object.entries(headers).map(([name, text]) => ({ name, render: template(text) }))
  return (call: Call): string[] => {
    const pairs: string[] = []
    for (const { name, render } of named) pairs.push(name, plain(render, call))
    return pairs
  }
}

/** A variable may hold what no header can: a line end of a query parameter, for one. The message is delivered: that must not fail. */
function plain(render: Render, call: Call): string {
  try {
    return render(null, call).replace(/[^\t\x20-\x7e\x80-\xff]/g, ' ')
  } catch {
    return ''
  }
}
