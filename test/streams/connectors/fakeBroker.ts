import { randomBytes } from 'node:crypto'
import type { Fields } from '../../../config/world.ts'
import type { Broker, Joining, Place, Position, Produce, Taker } from '../../../streams/broker.ts'
import type { ConnectorTools } from '../../../streams/connector.ts'
import type { Arrived, Placed } from '../../../streams/message.ts'
import { Undelivered } from '../../../streams/undelivered.ts'
import { handClock } from '../../helpers/clock.ts'

/** A broker that does what the test says, and tools around it. */
export function fakeBroker(given: { partitions?: number | (() => Promise<number>) } = {}) {
  const produced: Produce[] = []
  const paused = new Set<string>()
  const commits: (readonly Position[])[] = []
  const calls: string[] = []
  const logged: [msg: string, fields: Fields][] = []
  const clock = handClock()
  const fake = {
    produced,
    paused,
    commits,
    calls,
    logged,
    clock,
    joined: null as Joining | null,
    taker: null as Taker | null,
    /** Replaced by tests that want another answer. */
    answer: (what: Produce): Promise<readonly Placed[]> => Promise.resolve(placed(what)),
    creation: (): Promise<void> => Promise.resolve(),
    commit: (): Promise<void> => Promise.resolve(),
    fault: null as string | null
  }
  const name = ({ topic, partition }: Place) => `${topic}:${partition}`
  const broker: Broker = {
    name: 'fake',
    produce(what) {
      produced.push(what)
      return fake.answer(what)
    },
    partitions: () => {
      const { partitions = 1 } = given
      return typeof partitions === 'number' ? partitions : partitions()
    },
    spans: () => Promise.reject(new Undelivered('failed', 'not asked')),
    positionsAt: () => Promise.reject(new Undelivered('failed', 'not asked')),
    join(how, to) {
      fake.joined = how
      fake.taker = to
      return {
        pause: place => void paused.add(name(place)),
        resume: place => void paused.delete(name(place)),
        commit(positions) {
          commits.push(positions)
          return fake.commit()
        },
        async close() {
          calls.push('left')
        }
      }
    },
    read: () => {
      throw new Undelivered('failed', 'not asked')
    },
    state: () => ({ isUp: fake.fault === null, fault: fake.fault }),
    onState: () => () => {},
    createTopic(topic, partitions, replicas) {
      calls.push(`create ${topic} ${partitions} ${replicas}`)
      return fake.creation()
    },
    async close() {
      calls.push('closed')
    }
  }
  const log = (msg: string, fields: Fields = {}) => void logged.push([msg, fields])
  const tools: ConnectorTools = {
    clock,
    log: { debug: log, info: log, warn: log, error: log },
    random: { bytes: count => randomBytes(count) },
    api: 'a1',
    stream: 'orders',
    broker: () => broker,
    output: () => {
      throw new Error('not asked')
    },
    input: () => {
      throw new Error('not asked')
    }
  }
  return Object.assign(fake, { broker, tools })
}

export function placed({ topic, messages }: Produce): readonly Placed[] {
  return messages.map(({ partition }, i) => ({ topic, partition, offset: i, timestamp: 1 }))
}

export function connector(options: object) {
  return { kind: 'kafka', label: '', options, processors: [], children: [] }
}

/** Records of a partition with the values `0`, `1`, … */
export function records(from: number, to: number, partition = 0): Arrived[] {
  return Array.from({ length: to - from }, (_, i) => ({
    key: null,
    value: Buffer.from(String(from + i)),
    headers: [],
    topic: 't',
    partition,
    offset: from + i,
    timestamp: 1
  }))
}

/** So many turns of the event loop: what is ready by then has happened. */
export async function turns(count = 5): Promise<void> {
  for (let i = 0; i < count; i++) await new Promise<void>(resolve => setImmediate(resolve))
}
