import t from 'tap'
import { gateway, rights } from '../helpers/gateway.ts'
import { postgres } from '../helpers/postgres.ts'
import { launch, settings } from '../helpers/process.ts'
import { soon } from '../helpers/soon.ts'
import { basicly, user, withBasic } from './withBasic.ts'

t.setTimeout(120_000)

t.test('a password that is changed in one process counts in another within a second', async t => {
  const server = await postgres(t, { version: 17 })
  const settings = { storage: { documents: { type: 'postgres', url: await server.database(), pool_size: 4 } } }
  const [one, two] = [await gateway(t, { settings }), await gateway(t, { settings })]
  const login = (password: string) => () => two.get('/a/', { Authorization: basicly('alice', password) })
  t.equal((await one.svc('POST', '/svc/apis/oas', withBasic('a', 'svc://echo'))).status, 200)
  await soon(t, 'nobody is known', 401, login('first'))
  await user(one, 'alice', 'first', ['a'])
  await soon(t, 'a new user', 200, login('first'))
  t.equal((await login('second')()).status, 401)
  await user(one, 'alice', 'second', ['a'])
  await soon(t, 'another password', 200, login('second'))
  t.equal((await login('first')()).status, 401)
  t.equal((await one.svc('DELETE', '/svc/keys/alice')).status, 200)
  await soon(t, 'a deleted user', 401, login('second'))
})

t.test(
  'threads that serve the data plane verify passwords too, and a process ends whatever it was hashing',
  async t => {
    const process = launch(t, { settings: settings({ workers: 2 }, { storage: { documents: { type: 'memory' } } }) })
    const url = await process.ready
    t.equal((await process.svc('POST', '/svc/apis/oas', withBasic('a', 'svc://echo'))).status, 200)
    const body = { ...rights('a'), basic_auth_data: { password: 'secret' } }
    t.equal((await process.svc('POST', '/svc/keys/alice', body)).status, 200)
    const login = async (password: string) => {
      const headers = { Authorization: basicly('alice', password), Connection: 'close' }
      return (await fetch(`${url}/a/`, { headers })).status
    }
    for (const _ of [1, 2, 3]) t.same(await Promise.all(['secret', 'wrong', 'secret'].map(login)), [200, 401, 200])
    void login('other').catch(() => {})
    process.child.kill('SIGTERM')
    t.equal(await process.ended, 0)
  }
)
