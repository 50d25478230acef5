import t from 'tap'
import { passwords } from '../../gateway/passwords/passwords.ts'
import { gateway, type TestGateway } from '../helpers/gateway.ts'
import { ask, eventsOf } from '../steps/ask.ts'
import { basicly, user, withBasic } from './withBasic.ts'

/** The gateway believes what the tests say of clients' addresses. */
const settings = { gateway: { trusted_proxies: ['127.0.0.0/8'] } }
const TOO_MANY = '{"error":"Too many authentication attempts"}'

function login(gw: TestGateway, from: string, name: string, password: string) {
  return ask(gw, '/a/', { headers: { Authorization: basicly(name, password), 'X-Forwarded-For': from } })
}

t.test('a flood of wrong passwords from one address is sent away, and others log in meanwhile', async t => {
  const gw = await gateway(t, { settings, apis: [withBasic('a', 'svc://echo')] })
  await user(gw, 'alice', 'secret', ['a'])
  await user(gw, 'bobby', 'secret', ['a'])
  t.equal((await login(gw, '192.0.2.9', 'bobby', 'secret')).status, 200)
  let n = 0
  let over = false
  const told = new Map<number, number>()
  const forms = new Set<string>()
  const knock = async () => {
    while (!over) {
      const { status, text, headers } = await login(gw, '192.0.2.1', `user${n++}`, `wrong ${n}`)
      told.set(status, (told.get(status) ?? 0) + 1)
      if (status === 429) {
        forms.add([text, headers['retry-after'], headers['x-svc-error']].join(' '))
        // A flood all the same, but one that leaves the tests their share of the core.
        await new Promise(resolve => setTimeout(resolve, 5))
      }
    }
  }
  const flood = Promise.all(Array.from({ length: 24 }, knock))
  while ((told.get(429) ?? 0) < 10) await new Promise(resolve => setImmediate(resolve))
  t.equal((await login(gw, '192.0.2.2', 'alice', 'secret')).status, 200, 'another address')
  t.equal((await login(gw, '192.0.2.2', 'alice', 'wrong')).status, 401)
  t.equal((await login(gw, '192.0.2.1', 'bobby', 'secret')).status, 200, 'a remembered one, from the same address')
  t.equal((await gw.api('GET', '/api/keys/bobby?username=true')).status, 200)
  await user(gw, 'carol', 'secret', ['a'])
  over = true
  await flood
  t.same([...told.keys()].sort(), [401, 429])
  t.same([...forms], [`${TOO_MANY} 1 too_many_attempts`])
  t.ok(told.get(429)! > told.get(401)!)
  t.equal((await login(gw, '192.0.2.1', 'alice', 'secret')).status, 200, 'that address, once it is quiet')
  const events = eventsOf(gw)
  t.ok(events.every(({ event }) => event === 'AuthFailure'))
})

t.test('a flood of one wrong password costs one hash', async t => {
  const gw = await gateway(t, { settings, apis: [withBasic('a', 'svc://echo')] })
  const made = t.capture(passwords, 'check', passwords.check)
  for (let round = 0; round < 5; round++) {
    const answers = await Promise.all(Array.from({ length: 20 }, () => login(gw, '192.0.2.1', 'alice', 'wrong')))
    t.ok(answers.every(({ status }) => status === 401))
  }
  t.equal(made().length, 1)
})

t.test('twenty users who log in at once from one address all get in', async t => {
  const gw = await gateway(t, { settings, apis: [withBasic('a', 'svc://echo')] })
  const names = Array.from({ length: 20 }, (_, i) => `user${i}`)
  for (const name of names) await user(gw, name, 'secret', ['a'])
  const answers = await Promise.all(names.map(name => login(gw, '192.0.2.20', name, 'secret')))
  t.same(new Set(answers.map(({ status }) => status)), new Set([200]))
})

t.test('who guesses a user\u2019s password does not shut that user out elsewhere', async t => {
  const gw = await gateway(t, { settings, apis: [withBasic('a', 'svc://echo', { disableCaching: true })] })
  await user(gw, 'victor', 'secret', ['a'])
  let n = 0
  let over = false
  const told = new Map<number, number>()
  const knock = async () => {
    while (!over) {
      const { status } = await login(gw, '192.0.2.31', 'victor', `wrong ${n++}`)
      told.set(status, (told.get(status) ?? 0) + 1)
      if (status === 429) await new Promise(resolve => setTimeout(resolve, 5))
    }
  }
  const flood = Promise.all(Array.from({ length: 16 }, knock))
  while ((told.get(429) ?? 0) < 10) await new Promise(resolve => setImmediate(resolve))
  for (let i = 0; i < 5; i++) t.equal((await login(gw, '192.0.2.32', 'victor', 'secret')).status, 200)
  over = true
  await flood
  t.same([...told.keys()].sort(), [401, 429])
})

t.test('remembered wrong passwords count as wrong ones', async t => {
  const gw = await gateway(t, { settings, apis: [withBasic('a', 'svc://echo')] })
  for (let i = 0; i < 5; i++) t.equal((await login(gw, '192.0.2.40', 'alice', 'outdated')).status, 401)
  const from = async (address: string) => {
    const answers = await Promise.all(
      Array.from({ length: 8 }, (_, i) => login(gw, address, 'alice', `${address}${i}`))
    )
    return answers.filter(({ status }) => status === 429).length
  }
  t.equal(await from('192.0.2.40'), 4)
  t.equal(await from('192.0.2.41'), 0, 'once five of them were wrong, three wait')
})

t.test('429 and 503, at once and after a while', async t => {
  const gw = await gateway(t, { settings, apis: [withBasic('a', 'svc://echo')] })
  let told: unknown
  // The queue itself is shown in passwords.test.ts.
  t.intercept(passwords, 'check', { value: () => told })
  const FULL = '{"error":"Service temporarily unavailable"}'
  let n = 0
  for (const [value, status, text] of [
    ['too many', 429, TOO_MANY],
    ['full', 503, FULL],
    [Promise.resolve('too many'), 429, TOO_MANY],
    [Promise.resolve('full'), 503, FULL]
  ] as const) {
    told = value
    const answer = await login(gw, '192.0.2.9', 'bobby', `wrong ${n++}`)
    t.same([answer.status, answer.text, answer.headers['retry-after']], [status, text, '1'])
  }
})
