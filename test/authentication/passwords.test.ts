import { readdirSync } from 'node:fs'
import { constants, getPriority } from 'node:os'
import { Worker } from 'node:worker_threads'
import { hashSync } from 'bcryptjs'
import t, { type Test } from 'tap'
import { Credentials } from '../../gateway/passwords/credentials.ts'
import { fits, hashed, NOBODYS } from '../../gateway/passwords/hashes.ts'
import { Passwords, passwords } from '../../gateway/passwords/passwords.ts'
import { Waiting } from '../../gateway/passwords/waiting.ts'
import { Unavailable } from '../../gateway/store/store.ts'
import { api, gateway, rights, withKey } from '../helpers/gateway.ts'

const ask = (address: string, at = 0) => ({ address, at })

t.test('a password fits its own hash alone, of either type', async t => {
  const text = 'schlüssel \ud83d\udd11'
  const forms = { bcrypt: /^\$2[aby]\$10\$.{53}$/, argon2id: /^\$argon2id\$v=19\$m=19456,t=2,p=1\$.{22}\$.{43}$/ }
  for (const [type, form] of Object.entries(forms) as ['bcrypt' | 'argon2id', RegExp][]) {
    const hash = await passwords.hash(text, type)
    t.match(hash, form)
    t.not(await passwords.hash(text, type), hash, 'twice the same password does not show')
    t.equal(await passwords.verify(text, hash), true)
    for (const other of ['', 'schlüssel', `${text} `, `${text}\u0000`, text.toUpperCase()])
      t.equal(await passwords.verify(other, hash), false, `${type} ${other}`)
  }
})

t.test('what bcrypt would cut off is refused, and fits nothing; argon2id takes more, and has its end too', async t => {
  const longest = 'ö'.repeat(36)
  const hash = await passwords.hash(longest, 'bcrypt')
  t.equal(await passwords.verify(longest, hash), true)
  t.equal(await passwords.verify(`${longest}x`, hash), false)
  await t.rejects(passwords.hash(`${longest}x`, 'bcrypt'), { message: 'A password may have at most 72 bytes' })
  const long = await passwords.hash('x'.repeat(1024), 'argon2id')
  t.equal(await passwords.verify('x'.repeat(1024), long), true)
  t.equal(await passwords.verify('x'.repeat(1025), long), false)
  await t.rejects(passwords.hash('x'.repeat(1025), 'argon2id'), RangeError)
})

t.test('hashes that others made', t => {
  // phc-winner-argon2, test.c, and bcrypt's own.
  const vectors: [string, string][] = [
    ['password', '$argon2id$v=19$m=65536,t=2,p=1$c29tZXNhbHQ$CTFhFdXPJO1aFaMaO6Mm5c8y7cJHAph8ArZWb2GRPPc'],
    ['password', '$argon2id$v=19$m=256,t=2,p=1$c29tZXNhbHQ$nf65EOgLrQMR/uIPnA4rEsF5h7TKyQwu9U1bMCHGi/4'],
    ['password', '$argon2id$v=19$m=256,t=2,p=2$c29tZXNhbHQ$bQk8UB/VmZZF4Oo79iDXuL5/0ttZwg2f/5U52iv1cDc'],
    ['password', '$argon2id$v=19$m=65536,t=1,p=1$c29tZXNhbHQ$9qWtwbpyPd3vm1rB1GThgPzZ3/ydHL92zKL+15XZypg'],
    ['differentpassword', '$argon2id$v=19$m=65536,t=2,p=1$c29tZXNhbHQ$C4TWUs9rDEvq7w3+J4umqA32aWKB1+DSiRuBfYxFj94'],
    ['password', '$argon2id$v=19$m=65536,t=2,p=1$ZGlmZnNhbHQ$vfMrBczELrFdWP0ZsfhWsRPaHppYdP3MVEMIVlqoFBw'],
    ['abc', '$2a$06$If6bvum7DFjUnE9p2uDeDu0YHzrHM6tf.iqN8.yx.jNN1ILEf7h0i'],
    ['U*U', '$2y$05$CCCCCCCCCCCCCCCCCCCCC.E5YPO9kmyuRGyh0XouQYb4YMJKvyOeW']
  ]
  for (const [password, hash] of vectors) {
    t.equal(fits(password, hash), true, hash)
    t.equal(fits(`${password} `, hash), false, hash)
  }
  t.end()
})

t.test('a hash that is none, or asks for hours of work or all memory, fits nothing at once', async t => {
  const bcrypt = hashSync('secret', 4)
  const argon = hashed('secret', 'argon2id')
  const [, , , , salt, tag] = argon.split('$') as [string, string, string, string, string, string]
  const phc = (parameters: string, more = '') => `$argon2id$v=19$${parameters}$${salt}$${tag}${more}`
  t.equal(fits('secret', phc('m=19456,t=2,p=1')), true)
  const none = [
    '',
    'secret',
    '$2b$10$',
    bcrypt.slice(0, -1),
    `${bcrypt}x`,
    bcrypt.replace('$2b$', '$9z$'),
    `$2b$31$${bcrypt.slice(7)}`,
    '$argon2id$',
    phc('m=262145,t=2,p=1'),
    phc('m=4294967295,t=2,p=1'),
    phc('m=19456,t=11,p=1'),
    phc('m=19456,t=2,p=9'),
    phc('m=8,t=2,p=2'),
    phc('m=0,t=2,p=1'),
    phc('m=19456,t=0,p=1'),
    phc('m=019456,t=2,p=1'),
    phc('t=2,m=19456,p=1'),
    phc('m=19456,t=2,p=1', '='),
    phc('m=19456,t=2,p=1', '$x'),
    `$argon2id$v=16$m=19456,t=2,p=1$${salt}$${tag}`,
    `$argon2id$m=19456,t=2,p=1$${salt}$${tag}`,
    `$argon2i$v=19$m=19456,t=2,p=1$${salt}$${tag}`,
    `$argon2id$v=19$m=19456,t=2,p=1$${salt}$`,
    `$argon2id$v=19$m=19456,t=2,p=1$${salt}$${tag.slice(0, 8)}`,
    `$argon2id$v=19$m=19456,t=2,p=1$$${tag}`,
    `$argon2id$v=19$m=19456,t=2,p=1$${salt}$${tag.slice(0, -1)}!`
  ]
  const began = performance.now()
  for (const hash of none) t.equal(await passwords.verify('secret', hash), false, hash)
  t.ok(performance.now() - began < 2_000)
  t.equal(fits('', NOBODYS), false)
})

t.test('management: those for whom there is no place are told to come back', async t => {
  // The least cost: what is looked at here is the queue.
  const hash = hashSync('secret', 4)
  const asked = Array.from({ length: 140 }, () => passwords.verify('secret', hash).catch(cause => cause))
  const told: unknown[] = await Promise.all(asked)
  const refused = told.filter(value => value instanceof Unavailable)
  t.equal(told.filter(value => value === true).length, 129, 'one under way, 128 wait')
  t.equal(refused.length, 11)
  t.equal(await passwords.verify('secret', hash), true)
})

/** A queue, who was turned away from it, and `many` to fill it: job `NAME 0`, `NAME 1` … */
function queue() {
  const away: [string, string][] = []
  const waiting = new Waiting<string>((job, refused) => away.push([job, refused]))
  const many = (count: number, name: string, address: (i: number) => string, at = 0) =>
    Array.from({ length: count }, (_, i) => waiting.add(`${name} ${i}`, ask(address(i), at)))
  const fail = (address: string, count = 5, at = 0) => {
    for (let i = 0; i < count; i++) waiting.failed(ask(address, at))
  }
  const turns = (count: number) => Array.from({ length: count }, () => waiting.next())
  return { waiting, away, many, fail, turns }
}
const added = (told: readonly string[]) => told.filter(each => each === 'added').length

t.test('one address has 64 places, and four once five wrong passwords came from it within ten seconds', t => {
  const { waiting, many, fail } = queue()
  t.same(many(66, 'a', () => '192.0.2.1').slice(63), ['added', 'too many', 'too many'])
  fail('192.0.2.2', 4)
  t.equal(added(many(6, 'b', () => '192.0.2.2', 9_999)), 6)
  fail('2001:db8:0:1::1', 3)
  fail('2001:db8:0:1::2', 2)
  t.equal(added(many(6, 'c', i => `2001:db8:0:1::${i + 1}`, 9_999)), 4, 'a /64 is one caller')
  t.equal(waiting.add('other', ask('2001:db8:0:2::1')), 'added')
  t.equal(added(many(6, 'd', () => '2001:db8:0:1::9', 10_000)), 6, 'forgotten')
  for (const at of [0, 2_000, 4_000, 6_000, 10_000]) fail('192.0.2.3', 1, at)
  t.equal(added(many(6, 'e', () => '192.0.2.3', 10_000)), 6, 'five, but not within ten seconds')
  fail('192.0.2.4', 5)
  fail('192.0.2.4', 1, 9_000)
  t.equal(added(many(6, 'f', () => '192.0.2.4', 9_500)), 4)
  t.end()
})

t.test('an address that begins to fail loses the places that it has too many', t => {
  const { waiting, away, many, fail, turns } = queue()
  many(10, 'a', () => '192.0.2.1')
  turns(1)
  fail('192.0.2.1', 4)
  t.same(away, [])
  fail('192.0.2.1', 1)
  t.same(
    away,
    [9, 8, 7, 6, 5, 4].map(i => [`a ${i}`, 'too many']),
    'the last first; one is under way, three wait'
  )
  waiting.end(ask('192.0.2.1'))
  t.equal(waiting.add('a again', ask('192.0.2.1')), 'added')
  t.equal(waiting.add('a more', ask('192.0.2.1')), 'too many')
  t.same(turns(5), ['a 1', 'a 2', 'a 3', 'a again', undefined])
  t.end()
})

t.test('failing addresses hold half of the places at most; it is full where others hold all', t => {
  const { waiting, away, many, fail } = queue()
  for (let i = 0; i < 20; i++) fail(`192.0.2.${i}`)
  t.equal(added(many(80, 'flood', i => `192.0.2.${i % 20}`)), 64)
  t.equal(waiting.add('more', ask('192.0.2.19')), 'too many')
  t.equal(added(many(64, 'other', i => `198.51.100.${i}`)), 64)
  t.same(away, [])
  t.equal(added(many(64, 'newcomer', i => `203.0.113.${i}`)), 64, 'others go before those that fail')
  t.equal(away.length, 64)
  t.ok(away.every(([job, refused]) => job.startsWith('flood') && refused === 'too many'))
  t.equal(waiting.add('one more', ask('203.0.113.99')), 'full')
  t.equal(waiting.add('one more', ask('203.0.113.1')), 'full')
  t.equal(waiting.add('flood', ask('192.0.2.1')), 'full')
  t.equal(waiting.add('management', null), 'added', 'which has places of its own')
  t.equal(waiting.next(), 'management')
  for (let i = 0; i < 128; i++) t.ok(waiting.next() !== undefined)
  t.equal(waiting.next(), undefined)
  t.end()
})

t.test('where all is full, who holds the most makes room for who holds less', t => {
  const { waiting, away, many } = queue()
  many(64, 'a', () => '192.0.2.1')
  many(64, 'b', () => '192.0.2.2')
  t.equal(added(many(3, 'c', () => '192.0.2.3')), 3)
  t.same(away, [
    ['a 63', 'full'],
    ['b 63', 'full'],
    ['a 62', 'full']
  ])
  t.equal(waiting.add('a', ask('192.0.2.1')), 'full')
  t.end()
})

t.test('callers take turns by address, and every other turn is the management\u2019s', t => {
  const { waiting, turns } = queue()
  for (const job of ['a1', 'a2', 'a3']) waiting.add(job, ask('192.0.2.1'))
  waiting.add('b1', ask('192.0.2.2'))
  waiting.add('m1', null)
  waiting.add('m2', null)
  t.equal(waiting.next(), 'm1')
  waiting.add('c1', ask('192.0.2.3'))
  t.same(turns(7), ['a1', 'm2', 'b1', 'c1', 'a2', 'a3', undefined])
  t.end()
})

t.test('failing addresses come behind all others, but have every fourth turn', t => {
  const { many, fail, turns } = queue()
  fail('192.0.2.1')
  fail('192.0.2.2')
  many(4, 'bad', i => `192.0.2.${(i % 2) + 1}`)
  many(8, 'good', () => '192.0.2.9')
  const order = ['good 0', 'good 1', 'good 2', 'bad 0', 'good 3', 'good 4', 'good 5', 'bad 1', 'good 6', 'good 7']
  t.same(turns(13), [...order, 'bad 2', 'bad 3', undefined])
  t.end()
})

t.test('fifty addresses guess as fast as they are answered, and a newcomer is served within sixty turns', t => {
  const { waiting, many, turns } = queue()
  const flood = Array.from({ length: 50 }, (_, i) => `192.0.2.${i}`)
  const again = () => {
    for (const [i, address] of flood.entries()) many(24, `flood/${i}`, () => address)
  }
  again()
  const waits: number[] = []
  for (let round = 0; round < 40; round++) {
    t.equal(waiting.add('newcomer', ask('203.0.113.1')), 'added')
    for (let turn = 1; ; turn++) {
      const [job] = turns(1)
      if (job === 'newcomer') {
        waits.push(turn)
        waiting.end(ask('203.0.113.1'))
        break
      }
      const from = ask(flood[Number(/\d+/.exec(job!)![0])]!)
      waiting.end(from)
      waiting.failed(from)
      again()
    }
  }
  t.ok(Math.max(...waits) <= 60, waits.join())
  t.ok(Math.max(...waits.slice(5)) <= 2, 'and is next, or the one after, once all of them are known')
  t.end()
})

t.test('a place is free again when its password is done', t => {
  const { waiting, many, fail } = queue()
  fail('192.0.2.1')
  t.same(
    many(5, 'x', () => '192.0.2.1'),
    ['added', 'added', 'added', 'added', 'too many']
  )
  waiting.next()
  t.equal(waiting.add('x', ask('192.0.2.1')), 'too many', 'it is under way')
  waiting.end(ask('192.0.2.1'))
  t.equal(waiting.add('x', ask('192.0.2.1')), 'added')
  t.end()
})

t.test('the same credentials from two addresses: that one is turned away says nothing about the other', async t => {
  let n = 0
  const settle: ((value: boolean | 'too many') => void)[] = []
  const check = () => {
    n++
    return new Promise<boolean | 'too many'>(resolve => settle.push(resolve))
  }
  const own = new Credentials({ check })
  const from = (address: string) =>
    own.check({ org: 'o', user: 'u', password: 'p', stored: 's', address, at: 0, rememberMs: 0 })
  const told = [from('192.0.2.1'), from('192.0.2.1'), from('192.0.2.2'), from('192.0.2.3')]
  t.equal(n, 1)
  settle[0]!('too many')
  t.same([await told[0], await told[1]], ['too many', 'too many'])
  while (settle.length < 2) await new Promise(resolve => setImmediate(resolve))
  settle[1]!(true)
  t.same([await told[2], await told[3]], ['right', 'right'])
  t.equal(n, 2)
})

function hashing(t: Test) {
  const threads: Worker[] = []
  const url = new URL('../../gateway/passwords/passwordWorker.ts', import.meta.url)
  const own = new Passwords(() => {
    const thread = new Worker(url)
    threads.push(thread)
    return thread
  })
  t.teardown(() => Promise.all(threads.map(thread => thread.terminate())))
  return { own, threads }
}

t.test('a thread that dies is replaced, and what waits goes on', async t => {
  const { own, threads } = hashing(t)
  const hash = hashSync('secret', 8)
  const answers = Promise.all([own.verify('secret', hash), own.verify('wrong', hash), own.hash('secret', 'bcrypt')])
  void threads[0]!.terminate()
  const [right, wrong, made] = await answers
  t.same([right, wrong], [true, false])
  t.equal(threads.length, 2)
  await threads[1]!.terminate()
  t.equal(await own.verify('secret', made), true, 'also when it died with nothing to do')
  t.equal(threads.length, 3)
})

t.test('a password that kills threads is given up, and the next one is served', async t => {
  const { own, threads } = hashing(t)
  const deadly = own.check('secret', NOBODYS, ask('192.0.2.1'))
  const next = own.check('secret', hashSync('secret', 4), ask('192.0.2.1'))
  await threads[0]!.terminate()
  while (threads.length < 2) await new Promise(resolve => setImmediate(resolve))
  await threads[1]!.terminate()
  t.ok((await (deadly as Promise<boolean>).catch(cause => cause)) instanceof Unavailable)
  t.equal(await next, true)
})

t.test('the thread gives way to all others', { skip: process.platform !== 'linux' }, async t => {
  await passwords.hash('secret', 'bcrypt')
  // Whoever starts the tests may have lowered all of them.
  const own = getPriority(process.pid)
  const { PRIORITY_BELOW_NORMAL, PRIORITY_LOW } = constants.priority
  const below = Math.min(own + PRIORITY_BELOW_NORMAL, PRIORITY_LOW)
  const lowered = readdirSync('/proc/self/task').filter(task => {
    try {
      return Number(task) !== process.pid && getPriority(Number(task)) === below
    } catch {
      return false
    }
  })
  t.ok(lowered.length >= 1)
  t.ok(own < below || own === PRIORITY_LOW, 'the main thread does not')
})

t.test('a key says how its password is hashed', async t => {
  const gw = await gateway(t, { apis: [api('a1', 'svc://echo', { server: withKey })] })
  const put = (basic_auth_data: object) =>
    gw.api('POST', '/api/apis/keys/basic/alice', { ...rights('a1'), basic_auth_data })
  const told = async (basic_auth_data: object) => {
    const answer = await put(basic_auth_data)
    t.equal(answer.status, 200, JSON.stringify(answer.body))
    return answer.body.data.basic_auth_data
  }
  t.same(await told({ password: 'one' }), { user: 'alice', hash_type: 'bcrypt' })
  t.same(await told({ password: 'two', hash_type: 'argon2id' }), { user: 'alice', hash_type: 'argon2id' })
  t.same(await told({ password: '' }), { user: 'alice', hash_type: 'argon2id' }, 'kept as it is')
  t.same(await told({ password: '', hash_type: 'bcrypt' }), { user: 'alice', hash_type: 'argon2id' })
  t.same(await told({ password: 'x'.repeat(1000), hash_type: 'argon2id' }), { user: 'alice', hash_type: 'argon2id' })
  t.match(await put({ password: 'x', hash_type: 'md5' }), {
    status: 400,
    body: { Message: 'basic_auth_data.hash_type must be bcrypt or argon2id' }
  })
  t.match(await put({ password: 'x'.repeat(1025), hash_type: 'argon2id' }), {
    status: 400,
    body: { Message: 'A password may have at most 1024 bytes' }
  })
})
