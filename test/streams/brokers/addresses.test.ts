import t from 'tap'
import { addressFault, memoryName, servers } from '../../../streams/brokers/addresses.ts'

t.test('addresses are servers with a port, or one embedded broker', async t => {
  for (const good of [
    ['localhost:9092'],
    ['a.example:1', 'b-2.example:65535', '10.0.0.1:9092', '[::1]:9092', 'under_score:9092', 'dot.:9092'],
    ['a:9092, b:9092,', 'c:9092'],
    ['memory://a'],
    ['memory://A.b_c-9', ' memory://A.b_c-9 '],
    [`memory://${'x'.repeat(100)}`]
  ])
    t.equal(addressFault(good), null, good.join())
  for (const [bad, fault] of [
    [[], /no server/],
    [[' , '], /no server/],
    [['localhost'], /host:port/],
    [['localhost:'], /host:port/],
    [[':9092'], /host:port/],
    [['localhost:0'], /port/],
    [['localhost:65536'], /port/],
    [['localhost:9092/x'], /host:port/],
    [['kafka://localhost:9092'], /host:port/],
    [['user:secret@localhost:9092'], /host:port/],
    [['::1:9092'], /host:port/],
    [['a b:9092'], /host:port/],
    [['a:9092', 'memory://x'], /stands alone/],
    [['memory://x,memory://y'], /stands alone/],
    [['memory://'], /name/],
    [['memory://a/b'], /name/],
    [[`memory://${'x'.repeat(101)}`], /name/],
    [['MEMORY://x'], /host:port/],
    [['a:9092', '169.254.169.254:9092'], /link-local/],
    [['[fe80::1]:9092'], /link-local/],
    [['[::ffff:169.254.1.1]:9092'], /link-local/],
    [Array.from({ length: 101 }, (_, i) => `h${i}:1`), /more than/]
  ] as const)
    t.match(addressFault(bad), fault, bad.join().slice(0, 60))
  t.strictSame(servers(['a:1,b:2', 'a:1']), ['a:1', 'b:2'])
  t.equal(memoryName(['memory://x']), 'x')
  t.equal(memoryName(['x:1']), null)
})
