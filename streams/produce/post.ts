import { createHash } from 'node:crypto'
import type { Call } from '../call.ts'
import type { Message, MessageHeaders, Placed } from '../message.ts'
import { type No, no, nos } from '../refusals.ts'
import { Undelivered } from '../undelivered.ts'
import { type Result, refusalOf, told, worst } from './answers.ts'
import { typed } from './carried.ts'
import { Intake, type Recipient } from './intake.ts'
import { lines, multipart, type Part } from './parts.ts'
import { type Production, prepared } from './production.ts'
import type { Claim, Outcome, Partial } from './remembered.ts'

const LONGEST_IDEMPOTENCY_KEY = 256
/** Records of one request that are sent one by one, at once. */
const AT_ONCE = 32
const NDJSON = 'application/x-ndjson'

const encoded = no(nos.mediaType.code, 415, nos.mediaType.message, ['Accept-Encoding', 'identity'])
const badIdempotencyKey = no('idempotency_key', 400, `An idempotency key has 1 to ${LONGEST_IDEMPOTENCY_KEY} bytes`)
const unanswerable = no('idempotency_unavailable', 503, 'Nobody can say now whether this idempotency key came before', [
  'Retry-After',
  '1'
])
const otherRequest = no('idempotency_key_reused', 422, 'This idempotency key came with another request')

/** One POST, from its head to its answer. Whatever happens, `over` is called once. */
export class Post implements Recipient {
  readonly #production: Production
  readonly #call: Call
  readonly #over: (post: Post) => void
  /** Lower case, without parameters. */
  readonly #type: string
  readonly intake: Intake
  #isAnswered = false
  /** Under which its outcome is remembered; '' not. */
  #id = ''
  #idempotencyKey = ''
  /** What came of its messages when it was sent before, and some of them failed. */
  #before: Partial | null = null
  #partial: Partial | null = null

  constructor(production: Production, call: Call, over: (post: Post) => void) {
    this.#production = production
    this.#call = call
    this.#over = over
    const type = call.header('content-type') ?? 'application/octet-stream'
    const semicolon = type.indexOf(';')
    this.#type = (semicolon < 0 ? type : type.slice(0, semicolon)).trim().toLowerCase()
    this.intake = new Intake(call, production.options.maxBody, production.budget, this, production.clock.now())
  }

  start(): void {
    const { contentTypes } = this.#production.options
    if (contentTypes !== null && !contentTypes.includes(this.#type)) return this.intake.stop(nos.mediaType)
    const encoding = this.#call.header('content-encoding')
    if (encoding !== null && encoding.toLowerCase() !== 'identity') return this.intake.stop(encoded)
    this.intake.start()
  }

  // The body

  received(body: Buffer): void {
    const name = this.#production.options.idempotencyHeader
    const given = name === '' ? null : this.#call.header(name)
    if (given === null) return this.#produce(body)
    if (given === '' || given.length > LONGEST_IDEMPOTENCY_KEY) return this.refused(badIdempotencyKey)
    this.#idempotencyKey = given
    this.#claim(body)
  }

  refused(what: No): void {
    this.#answer(what)
    this.#done()
  }

  left(): void {
    this.#done()
  }

  // Repeats

  #claim(body: Buffer): void {
    const { remembered, api, stream } = this.#production
    const id = JSON.stringify([api, stream, this.#call.key, this.#idempotencyKey])
    // Path and query may choose key and topic.
    const head = JSON.stringify([this.#call.path, this.#call.query, this.#call.header('content-type')])
    const digest = createHash('sha256').update(head).update(body).digest('base64')
    const claim = remembered.claim(id, digest, outcome => this.#repeat(outcome, body))
    if (claim instanceof Promise) void claim.then(late => this.#claimed(id, late, body))
    else this.#claimed(id, claim, body)
  }

  #claimed(id: string, claim: Claim, body: Buffer): void {
    if (claim === 'waiting') return
    if (claim === 'other') return this.refused(otherRequest)
    if (claim === 'crowded') return this.refused(nos.busy)
    if (claim === 'away') return this.refused(unanswerable)
    if (claim !== 'yours' && !('results' in claim)) return this.#replay(claim)
    this.#before = claim === 'yours' ? null : claim
    this.#partial = this.#before
    this.#id = id
    this.#produce(body)
  }

  /** The first one with this key has ended; without an outcome that is final, this one tries in its place. */
  #repeat(outcome: Outcome | null, body: Buffer): void {
    if (outcome !== null) this.#replay(outcome)
    else if (this.#call.isGone) this.#done()
    else if (this.#production.isClosing) this.refused(nos.draining)
    else this.#claim(body)
  }

  #replay(outcome: Outcome): void {
    this.#answer({ ...outcome, pairs: [...outcome.pairs, 'svc-idempotent-replay', 'true'] })
    this.#done()
  }

  // The messages

  #produce(body: Buffer): void {
    if (this.#isOne) return this.#one(body)
    const parts = this.#type === NDJSON ? lines(body) : multipart(body, this.#call.header('content-type')!)
    if ('code' in parts) this.#end(parts)
    else this.#several(parts)
  }

  get #isOne(): boolean {
    return this.#type !== NDJSON && !this.#type.startsWith('multipart/')
  }

  #one(value: Buffer): void {
    let message: Message | null
    try {
      const headers = this.#named(this.#production.carried(this.#call), '')
      message = prepared(this.#production, { key: null, value, headers }, this.#call)
    } catch (fault) {
      return this.#failed(fault)
    }
    if (message === null) this.#end(this.#success(['filtered']))
    else this.#send([message])
  }

  #several(parts: readonly Part[]): void {
    const { carried, options } = this.#production
    const isEach = options.returnsRecord && !options.isAsync
    const own = carried(this.#call)
    const carriesType = !options.deny.includes('content-type')
    const slots: (Message | Result)[] = []
    for (let i = 0; i < parts.length; i++) {
      const before = isEach ? this.#before?.results[i] : null
      if (before) {
        slots.push(before)
        continue
      }
      const { value, type } = parts[i]!
      const headers = this.#named(typed(own, carriesType ? type : null), parts.length === 1 ? '' : `#${i}`)
      try {
        slots.push(prepared(this.#production, { key: null, value, headers }, this.#call) ?? 'filtered')
      } catch (fault) {
        // One by one, the others go on; else all go or none.
        if (!isEach || !(fault instanceof Undelivered)) return this.#failed(fault)
        slots.push(refusalOf(fault))
      }
    }
    const messages = slots.filter(isMessage)
    if (isEach) void this.#each(slots)
    else if (messages.length === 0) this.#end(this.#success([]))
    else this.#send(messages)
  }

  /** Who reads the topic can tell repeats too; each message of a request has a name of its own. */
  #named(headers: MessageHeaders, index: string): MessageHeaders {
    if (this.#idempotencyKey === '') return headers
    const others = headers.filter(([name]) => name !== 'idempotency-key')
    return [...others, ['idempotency-key', Buffer.from(this.#idempotencyKey + index, 'latin1')]]
  }

  // The delivery

  #send(messages: readonly Message[]): void {
    const { output, clock, options } = this.#production
    // From here on: a slow upload takes nothing from the time for the delivery.
    output
      .send(messages, this.#call, clock.now() + options.timeoutMs)
      .then(this.#delivered.bind(this, messages.length), this.#failed.bind(this))
    if (options.isAsync) setImmediate(() => this.#accept())
  }

  #delivered(count: number, placed: readonly (Placed | null)[]): void {
    this.#production.counted(count)
    this.#end(this.#success(placed.map(place => place ?? 'delivered')))
  }

  /** What fails at once, as with a broker that is known to be away, is still told; what lasts longer is not waited for. */
  #accept(): void {
    if (this.#isAnswered) return
    this.#conclude(this.#success([]))
  }

  /** A few at once, in order, so that each has its own result. */
  async #each(slots: (Message | Result)[]): Promise<void> {
    const { output, clock, options, failures } = this.#production
    const deadline = clock.now() + options.timeoutMs
    const delivered = ([place]: readonly (Placed | null)[]): Result => {
      this.#production.counted(1)
      return place ?? 'delivered'
    }
    const failed = (fault: unknown): Result => {
      failures.add(fault)
      return refusalOf(fault)
    }
    const results: Result[] = []
    for (let from = 0; from < slots.length; from += AT_ONCE) {
      const some = slots.slice(from, from + AT_ONCE)
      const sent = some.map(one =>
        isMessage(one) ? output.send([one], this.#call, deadline).then(delivered, failed) : one
      )
      results.push(...(await Promise.all(sent)))
    }
    // Statuses below 500 would be the same again.
    if (this.#id !== '')
      this.#partial = { results: results.map(one => (isRefusal(one) && one.status >= 500 ? null : one)) }
    this.#end(this.#success(results))
  }

  #failed(fault: unknown): void {
    this.#production.failures.add(fault)
    this.#end(refusalOf(fault))
  }

  // The answer

  #success(results: readonly Result[]): Outcome {
    const { options, answerPairs } = this.#production
    const plain = answerPairs(this.#call)
    if (!options.returnsRecord || options.isAsync) return { status: options.status, pairs: plain, body: null }
    const body = Buffer.from(JSON.stringify(this.#isOne ? told(results[0]!) : results.map(told)))
    const pairs = ['Content-Type', 'application/json']
    for (let i = 0; i < plain.length; i += 2)
      if (plain[i]!.toLowerCase() !== 'content-type') pairs.push(plain[i]!, plain[i + 1]!)
    const bad = results.filter(isRefusal)
    if (bad.length === 0) return { status: options.status, pairs, body }
    const { status, pairs: own } = worst(bad)
    return { status, pairs: [...pairs, ...own], body }
  }

  #end(outcome: Outcome): void {
    if (!this.#isAnswered) this.#conclude(outcome)
    this.#done()
  }

  /** Only what would be the same again is remembered: after 5xx, 504 too, a client may try once more, and what arrived is not sent again. */
  #conclude(outcome: Outcome): void {
    this.#answer(outcome)
    if (this.#id !== '')
      this.#production.remembered.settle(this.#id, outcome.status < 500 ? outcome : null, this.#partial)
  }

  #answer(outcome: Outcome): void {
    this.#isAnswered = true
    if (this.#call.isGone) return
    if ('code' in outcome) this.#call.refuse(outcome)
    else this.#call.answer(outcome.status, [...outcome.pairs], outcome.body)
  }

  #done(): void {
    this.intake.release()
    this.#over(this)
  }
}

function isMessage(slot: Message | Result): slot is Message {
  return typeof slot === 'object' && 'headers' in slot
}

function isRefusal(result: Result): result is No {
  return typeof result === 'object' && 'code' in result
}
