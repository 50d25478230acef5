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

t.test('many addresses at one user wait as one; all together have their bound, and then it is 503', async t => {
  const gw = await gateway(t, { settings, apis: [withBasic('a', 'svc://echo')] })
  const asked: (() => void)[] = []
  let full = false
  // The queue itself is shown in passwords.test.ts.
  t.intercept(passwords, 'check', {
    value: () =>
      full ? 'full' : asked.length < 4 ? new Promise<boolean>(resolve => asked.push(() => resolve(false))) : 'too many'
  })
  const first = Array.from({ length: 4 }, (_, i) => login(gw, `192.0.2.${i}`, 'alice', `wrong ${i}`))
  while (asked.length < 4) await new Promise(resolve => setImmediate(resolve))
  t.equal((await login(gw, '192.0.2.9', 'alice', 'wrong 9')).text, TOO_MANY)
  full = true
  const answer = await login(gw, '192.0.2.9', 'bobby', 'wrong')
  t.same([answer.status, answer.text], [503, '{"error":"Service temporarily unavailable"}'])
  t.equal(answer.headers['retry-after'], '1')
  for (const end of asked) end()
  t.same(
    (await Promise.all(first)).map(({ status }) => status),
    [401, 401, 401, 401]
  )
})
