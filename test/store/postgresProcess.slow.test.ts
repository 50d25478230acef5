import { Agent, get } from 'node:http'
import t from 'tap'
import { api, rights, withKey } from '../helpers/gateway.ts'
import { postgres } from '../helpers/postgres.ts'
import { launch, settings } from '../helpers/process.ts'
import { until } from '../helpers/streamClients.ts'

t.setTimeout(120_000)
const server = await postgres(t, { version: 17 })
const on = (url: string) =>
  settings({}, { management: { listen_port: 0 }, storage: { documents: { type: 'postgres', url, pool_size: 3 } } })

t.test('a database that cannot be used ends the start with status 3 and one line without the password', async t => {
  const { ended, stdout, stderr } = launch(t, { settings: on(server.urlOf({ password: 'hush-hush' })) })
  t.equal(await ended, 3)
  t.match(stdout() + stderr(), /password authentication failed for user/)
  t.notMatch(stdout() + stderr(), /hush-hush|\n\s+at /)
})

t.test('a process that is killed loses nothing it acknowledged, and the other one goes on', async t => {
  const url = await server.database()
  const [doomed, other] = [launch(t, { settings: on(url) }), launch(t, { settings: on(url) })]
  await Promise.all([doomed.ready, other.ready])
  const acknowledged: string[] = []
  let isOver = false
  const write = async (process: typeof doomed, name: string) => {
    for (let n = 0; !isOver; n++) {
      const id = `${name}-${n}`
      const { status } = await process.svc('POST', `/svc/keys/${id}`, { ...rights('orders'), tags: [id] })
      if (status === 200) acknowledged.push(id)
    }
  }
  const dying = [1, 2, 3].map(n => write(doomed, `doomed${n}`).catch(() => {}))
  const going = [1, 2].map(n => write(other, `other${n}`))
  const reached = async (count: number) => {
    while (acknowledged.length < count) await new Promise(resolve => setTimeout(resolve, 5))
  }
  await reached(200)
  doomed.child.kill('SIGKILL')
  t.equal(await doomed.ended, null)
  await Promise.all(dying)
  await reached(acknowledged.length + 100)
  isOver = true
  await Promise.all(going)
  t.ok(acknowledged.some(id => id.startsWith('doomed')) && acknowledged.some(id => id.startsWith('other')))
  for (const id of acknowledged) {
    const { status, body } = await other.svc('GET', `/svc/keys/${id}`)
    if (status !== 200 || body.tags[0] !== id) t.fail(`${id} is ${status}`)
  }
})

t.test(
  'with a database that is away all threads serve the keys that one of them knew, and a reload changes nothing',
  async t => {
    const given = on(await server.database())
    const process = launch(t, { settings: { ...given, gateway: { ...given.gateway, workers: 2 } } })
    const at = `${await process.ready}/a/`
    await process.svc('POST', '/svc/apis/oas', api('a', 'svc://echo', { server: withKey }))
    const { body } = await process.svc('POST', '/svc/keys/create', rights('a'))
    const headers = { Authorization: body.key }
    const agent = new Agent({ keepAlive: true, maxSockets: 1 })
    const status = (agent: Agent | false) =>
      new Promise<number>((resolve, reject) => {
        get(at, { headers, agent }, answer => answer.resume().on('end', () => resolve(answer.statusCode!))).on(
          'error',
          reject
        )
      })
    t.equal(await status(agent), 200)
    await server.stop('immediate')
    process.child.kill('SIGHUP')
    await until(
      () => process.lines().some(({ msg }) => msg === 'not reloaded: the old state stays'),
      'the reload is told'
    )
    for (let n = 0; n < 20; n++) t.equal(await status(false), 200)
    agent.destroy()
  }
)
