import { Agent, get } from 'node:http'
import t from 'tap'
import { api, gateway } from '../helpers/gateway.ts'
import { rawUpstream } from '../helpers/upstream.ts'

const ANSWER = 'HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok'

/** The status of one GET. */
function ask(url: string, agent: Agent): Promise<number> {
  return new Promise((resolve, reject) => {
    get(url, { agent }, res => {
      res.resume()
      res.on('end', () => resolve(res.statusCode!))
    }).on('error', reject)
  })
}

t.test('an upstream that closes kept connections while others are busy costs nobody an answer', async t => {
  let connections = 0
  const up = await rawUpstream(t, socket => {
    const leaves = connections++ % 2 === 0
    let asked = 0
    socket.on('data', () => {
      asked++
      // Every other connection takes its second request and closes without an answer.
      if (leaves && asked === 2) socket.destroy()
      else socket.write(ANSWER)
    })
  })
  const gw = await gateway(t, { apis: [api('a', up.url)] })
  const agent = new Agent({ keepAlive: true, maxSockets: 10 })
  t.teardown(() => agent.destroy())
  const statuses: number[] = []
  await Promise.all(
    Array.from({ length: 10 }, async () => {
      for (let i = 0; i < 60; i++) statuses.push(await ask(`${gw.url}/a/`, agent))
    })
  )
  t.same(
    statuses.filter(status => status !== 200),
    []
  )
})

t.test('of several targets that refuse, each is asked until one answers', async t => {
  const up = await rawUpstream(t, socket => socket.on('data', () => socket.write(ANSWER)))
  const dead = async () => {
    const gone = await rawUpstream(t, () => {})
    await gone.close()
    return gone.url
  }
  const targets = [
    { url: await dead(), weight: 1 },
    { url: await dead(), weight: 1 },
    { url: up.url, weight: 1 }
  ]
  const gw = await gateway(t, { apis: [api('a', '', { upstream: { loadBalancing: { enabled: true, targets } } })] })
  for (let i = 0; i < 4; i++) t.equal((await gw.get('/a/')).status, 200)
})
