import t from 'tap'
import { systemClock } from '../../../config/world.ts'
import { BrokerHandle } from '../../../streams/brokers/brokerHandle.ts'
import { MemoryBroker } from '../../../streams/brokers/brokerMemory.ts'
import { kafkaInput } from '../../../streams/connectors/kafkaInput.ts'
import { kafkaOutput } from '../../../streams/connectors/kafkaOutput.ts'
import { message } from '../processors/message.ts'
import { connector, fakeBroker } from './fakeBroker.ts'

const settings = {
  durable: false,
  partitions: 3,
  retention_messages: 10_000,
  retention_bytes: 10_000_000,
  retention_age: 0
}

t.test(
  'what an output sends an input delivers once, in order of each key, and a second one goes on behind it',
  async t => {
    const { tools: fake } = fakeBroker()
    const broker = new MemoryBroker({ name: 'm', settings, durable: null, clock: systemClock, log: fake.log })
    t.teardown(() => broker.close())
    const tools = { ...fake, clock: systemClock, broker: () => new BrokerHandle(broker, () => {}) }
    const output = kafkaOutput.open(connector({ addresses: ['memory://m'], topic: 't' }), tools)
    const send = (from: number, to: number) =>
      Promise.all(
        Array.from({ length: to - from }, (_, i) => from + i).map(i =>
          output.send([message(`${i}`, `k${i % 7}`)], null, Date.now() + 10_000)
        )
      )

    async function read(count: number): Promise<string[]> {
      const got: string[] = []
      const all = Promise.withResolvers<void>()
      const input = kafkaInput.open(
        connector({ addresses: ['memory://m'], topics: ['t'], consumer_group: 'g', checkpoint_limit: 10 }),
        async messages => {
          for (const { key, value } of messages) got.push(`${key} ${value}`)
          if (got.length >= count) all.resolve()
        },
        tools
      )
      await all.promise
      await input.close()
      return got
    }

    await send(0, 500)
    const first = await read(500)
    t.equal(new Set(first).size, 500)
    for (let key = 0; key < 7; key++) {
      const own = first.filter(each => each.startsWith(`k${key} `)).map(each => Number(each.split(' ')[1]))
      t.same(
        own,
        [...own].sort((a, b) => a - b)
      )
    }
    await send(500, 600)
    const second = await read(100)
    t.equal(second.length, 100, 'nothing comes again')
    await output.close()
  }
)
