import type { Broker, BrokerState, Joining, Position, Produce, Reading, Taker } from '../broker.ts'
import type { Placed } from '../message.ts'
import { type Reason, Undelivered } from '../undelivered.ts'

/** What says nothing about the broker. */
const SENDERS: ReadonlySet<Reason> = new Set<Reason>(['invalid', 'too_large', 'busy'])

/** One user's part of a broker that several share: `close` ends what this user began, and the broker goes on. */
export class BrokerHandle implements Broker {
  readonly name: string
  readonly #broker: Broker
  readonly #given: () => Promise<void> | void
  readonly #another: (() => Broker) | null
  readonly #readings = new Set<Reading>()
  readonly #endings = new Set<() => void>()
  /** Why the newest message of this user did not arrive; null: it did, or was the sender's own matter. */
  #fault: string | null = null
  #isClosed = false

  /**
   * @param given called once, when it is closed: the broker is given back
   * @param another makes a further one; null: there is none
   */
  constructor(broker: Broker, given: () => Promise<void> | void, another: (() => Broker) | null = null) {
    this.name = broker.name
    this.#broker = broker
    this.#given = given
    this.#another = another
    this.#listen(({ fault }) => {
      if (fault === null) this.#fault = null
    })
  }

  /** What is shared: the same object for all who have the same cluster and credentials. */
  get behind(): Broker {
    return this.#broker
  }

  /** A part of its own for one who outlives this user. Null: nobody may. */
  another(): Broker | null {
    return this.#another?.() ?? null
  }

  produce(what: Produce): Promise<readonly Placed[]> {
    if (this.#isClosed) return Promise.reject(closed())
    const produced = this.#broker.produce(what)
    produced.then(this.#worked, this.#failed)
    return produced
  }

  partitions(topic: string): number | Promise<number> {
    const partitions = this.#open().partitions(topic)
    if (partitions instanceof Promise) partitions.catch(this.#failed)
    return partitions
  }

  async spans(topic: string) {
    return this.#open().spans(topic)
  }

  async positionsAt(topic: string, ms: number) {
    return this.#open().positionsAt(topic, ms)
  }

  join(how: Joining, to: Taker): Reading {
    return this.#kept(this.#open().join(how, to))
  }

  read(from: readonly Position[], isExact: boolean, to: Taker): Reading {
    return this.#kept(this.#open().read(from, isExact, to))
  }

  /** Of the broker; the fault may be one that only this user has. */
  state(): BrokerState {
    const state = this.#broker.state()
    return this.#fault === null || state.fault !== null ? state : { ...state, fault: this.#fault }
  }

  onState(listener: (state: BrokerState) => void): () => void {
    this.#open()
    return this.#listen(listener)
  }

  #listen(listener: (state: BrokerState) => void): () => void {
    const stop = this.#broker.onState(listener)
    const end = () => {
      this.#endings.delete(end)
      stop()
    }
    this.#endings.add(end)
    return end
  }

  async createTopic(topic: string, partitions: number, replicas: number): Promise<void> {
    return this.#open().createTopic(topic, partitions, replicas)
  }

  async close(): Promise<void> {
    if (this.#isClosed) return
    this.#isClosed = true
    for (const end of this.#endings) end()
    await Promise.all([...this.#readings].map(reading => reading.close()))
    await this.#given()
  }

  readonly #worked = (): void => {
    this.#fault = null
  }

  readonly #failed = (cause: unknown): void => {
    if (cause instanceof Undelivered && SENDERS.has(cause.reason)) return
    this.#fault = cause instanceof Error ? cause.message : String(cause)
  }

  /** @throws Undelivered */
  #open(): Broker {
    if (this.#isClosed) throw closed()
    return this.#broker
  }

  #kept(reading: Reading): Reading {
    const own: Reading = {
      pause: place => reading.pause(place),
      resume: place => reading.resume(place),
      commit: positions => reading.commit(positions),
      close: () => {
        this.#readings.delete(own)
        return reading.close()
      }
    }
    this.#readings.add(own)
    return own
  }
}

const closed = () => new Undelivered('unavailable', 'the broker is closed')
