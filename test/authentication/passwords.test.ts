import { readdirSync } from 'node:fs'
import { constants, getPriority } from 'node:os'
import { Worker } from 'node:worker_threads'
import { hashSync } from 'bcryptjs'
import t, { type Test } from 'tap'
import { fits, hashed, NOBODYS } from '../../gateway/passwords/hashes.ts'
import { Passwords, passwords } from '../../gateway/passwords/passwords.ts'
import { Waiting } from '../../gateway/passwords/waiting.ts'
import { Unavailable } from '../../gateway/store/store.ts'
import { api, gateway, rights, withKey } from '../helpers/gateway.ts'

const ask = (address: string, user = address) => ({ address, user })

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

t.test('one address has eight places and one user name four; all callers together 128', t => {
  const waiting = new Waiting<string>()
  const many = (count: number, of: (i: number) => ReturnType<typeof ask>) =>
    Array.from({ length: count }, (_, i) => waiting.add(String(i), of(i)))
  const ofAddress = many(10, i => ask('192.0.2.1', `a${i}`))
  t.same(ofAddress, [...new Array(8).fill('added'), 'too many', 'too many'])
  t.same(
    many(6, i => ask(`192.0.2.${i + 2}`, 'alice')),
    [...new Array(4).fill('added'), 'too many', 'too many']
  )
  const network = many(10, i => ask(`2001:db8:0:1::${i + 1}`, `b${i}`))
  t.equal(network.filter(each => each === 'added').length, 8, 'a /64 is one caller')
  t.equal(waiting.add('other', ask('2001:db8:0:2::1')), 'added')
  const rest = many(120, i => ask(`198.51.100.${i}`))
  t.equal(rest.filter(each => each === 'added').length, 128 - 8 - 4 - 8 - 1)
  t.equal(rest.at(-1), 'full')
  t.equal(waiting.add('management', null), 'added', 'which has places of its own')
  t.equal(waiting.next(), 'management')
  for (let i = 0; i < 128; i++) t.ok(waiting.next() !== undefined)
  t.equal(waiting.next(), undefined)
  t.end()
})

t.test('callers take turns by address, and every other turn is the management\u2019s', t => {
  const waiting = new Waiting<string>()
  for (const job of ['a1', 'a2', 'a3']) waiting.add(job, ask('192.0.2.1', job))
  waiting.add('b1', ask('192.0.2.2'))
  waiting.add('m1', null)
  waiting.add('m2', null)
  t.equal(waiting.next(), 'm1')
  waiting.add('c1', ask('192.0.2.3'))
  t.same(
    Array.from({ length: 7 }, () => waiting.next()),
    ['a1', 'm2', 'b1', 'c1', 'a2', 'a3', undefined]
  )
  t.end()
})

t.test('a place is free again when its password is done', t => {
  const waiting = new Waiting<string>()
  const add = () => waiting.add('x', ask('192.0.2.1', 'alice'))
  t.same([add(), add(), add(), add(), add()], ['added', 'added', 'added', 'added', 'too many'])
  waiting.next()
  t.equal(add(), 'too many', 'it is under way')
  waiting.end(ask('192.0.2.1', 'alice'))
  t.equal(add(), 'added')
  t.end()
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
  const lowered = readdirSync('/proc/self/task').filter(task => {
    try {
      return getPriority(Number(task)) === constants.priority.PRIORITY_BELOW_NORMAL
    } catch {
      return false
    }
  })
  t.ok(lowered.length >= 1)
  t.equal(getPriority(0), 0, 'the main thread does not')
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
