import { connect } from 'node:net'
import t from 'tap'
import { eventually } from '../framing/wire.ts'
import { api, gateway } from '../helpers/gateway.ts'
import { rawUpstream } from '../helpers/upstream.ts'

t.setTimeout(180_000)

const ASK = 'GET /all/x HTTP/1.1\r\nHost: a.test\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n'
const SWITCH = 'HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n'
const CLIENTS = 10_000
const WAVE = 100

const sockets = () => process.getActiveResourcesInfo().filter(name => name.startsWith('TCPSocket')).length

t.test('10,000 upgrades whose clients leave early, at every stage, leave no socket behind', async t => {
  let open = 0
  let came = 0
  const up = await rawUpstream(t, socket => {
    open++
    socket.on('close', () => open--)
    // Every other one is switched, the rest never hear anything.
    socket.once('data', () => {
      if (came++ % 2 === 0) socket.write(`${SWITCH}hello`)
    })
  })
  const gw = await gateway(t, { apis: [api('all', up.url)] })
  const port = Number(new URL(gw.url).port)
  const before = sockets()

  const visit = (number: number) =>
    new Promise<void>(resolve => {
      const client = connect(port, '127.0.0.1')
      client.on('error', () => {})
      client.on('close', () => resolve())
      const leave = () => void (number % 2 === 0 ? client.destroy() : client.resetAndDestroy())
      client.once('connect', () => {
        client.write(ASK)
        switch (number % 4) {
          case 0:
          case 1:
            // Before the gateway has seen anything, or while it connects.
            return void setImmediate(leave)
          case 2:
            return void setTimeout(leave, number % 10)
          default:
            client.once('data', leave)
            return void setTimeout(leave, 50)
        }
      })
    })

  for (let done = 0; done < CLIENTS; done += WAVE)
    await Promise.all(Array.from({ length: WAVE }, (_, i) => visit(done + i)))
  await eventually(() => open === 0, 'the upstream has no connection left', 15_000)
  await eventually(() => sockets() <= before, `as many sockets as before (${before})`, 15_000)
  t.ok(came > CLIENTS / 10, `${came} reached the upstream`)
  t.same(
    gw.log.lines.filter(({ level }) => level === 'error'),
    []
  )
  t.equal((await gw.get('/hello')).status, 200)
})
