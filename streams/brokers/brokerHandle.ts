import type { Broker, BrokerState, Joining, Position, Produce, Reading, Taker } from '../broker.ts'
import type { Placed } from '../message.ts'
import { Undelivered } from '../undelivered.ts'

/** One user's part of a broker that several share: `close` ends what this user began, and the broker goes on. */
export class BrokerHandle implements Broker {
  readonly name: string
  readonly #broker: Broker
  readonly #given: () => Promise<void> | void
  readonly #another: (() => Broker) | null
  readonly #readings = new Set<Reading>()
  readonly #endings = new Set<() => void>()
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
    return this.#broker.produce(what)
  }

  partitions(topic: string): number | Promise<number> {
    return this.#open().partitions(topic)
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

  state(): BrokerState {
    return this.#broker.state()
  }

  onState(listener: (state: BrokerState) => void): () => void {
    const stop = this.#open().onState(listener)
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
