import { randomBytes } from 'node:crypto'
import t from 'tap'
import { fnv1a, murmur2, partitioner } from '../../../streams/connectors/partitioner.ts'

const random = { bytes: (count: number) => randomBytes(count) }

t.test('FNV-1a of 32 bits gives the values of its authors’ test vectors', async t => {
  // http://www.isthe.com/chongo/src/fnv/test_fnv.c
  for (const [text, hash] of [
    ['', 0x811c9dc5],
    ['a', 0xe40c292c],
    ['b', 0xe70c2de5],
    ['foobar', 0xbf9cf968]
  ] as const)
    t.equal(fnv1a(Buffer.from(text)) >>> 0, hash, text)
})

t.test('MurmurHash2 gives the values of the test of Kafka’s own client', async t => {
  // org.apache.kafka.common.utils.UtilsTest.testMurmur2
  for (const [text, hash] of [
    ['21', -973932308],
    ['foobar', -790332482],
    ['a-little-bit-long-string', -985981536],
    ['a-little-bit-longer-string', -1486304829],
    ['lkjh234lh9fiuh90y23oiuhsafujhadof229phr9h19h89h8', -58897971],
    ['abc', 479470107]
  ] as const)
    t.equal(murmur2(Buffer.from(text)), hash, text)
})

t.test('a key always has the same partition, worked out from the hash as sarama and as Kafka do', async t => {
  const fnv = partitioner('fnv1a_hash', random)
  const murmur = partitioner('murmur2_hash', random)
  // 0xbf9cf968 is -1080231576 as a signed number: the remainder of 7 is -2, without its sign 2.
  t.equal(fnv.pick(Buffer.from('foobar'), 7), 1080231576 % 7)
  t.equal(murmur.pick(Buffer.from('foobar'), 7), (-790332482 & 0x7fffffff) % 7)
  for (let partitions = 1; partitions < 50; partitions++)
    for (const key of ['', 'a', 'é', 'x'.repeat(100)])
      for (const one of [fnv, murmur]) {
        const partition = one.pick(Buffer.from(key), partitions)
        if (!(partition >= 0 && partition < partitions)) t.fail(`${key} of ${partitions}: ${partition}`)
        if (partition !== one.pick(Buffer.from(key), partitions)) t.fail('another one the second time')
      }
})

t.test(
  'without a key messages are spread over all partitions, and murmur2 keeps those of one turn together',
  async t => {
    for (const name of ['fnv1a_hash', 'murmur2_hash', 'random', 'round_robin'] as const) {
      const one = partitioner(name, random)
      const seen = new Set<number>()
      for (let i = 0; i < 1000; i++) {
        one.turn()
        seen.add(one.pick(null, 8))
      }
      t.equal(seen.size, 8, name)
    }
    const murmur = partitioner('murmur2_hash', random)
    murmur.turn()
    t.equal(new Set(Array.from({ length: 100 }, () => murmur.pick(null, 8))).size, 1)
    const robin = partitioner('round_robin', random)
    const keyed = Array.from({ length: 6 }, () => robin.pick(Buffer.from('k'), 3))
    t.same([...keyed].sort(), [0, 0, 1, 1, 2, 2], 'keys do not count in round_robin')
  }
)
