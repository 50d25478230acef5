import { once } from 'node:events'
import { connect } from 'node:net'
import t from 'tap'
import { files, issued, pemOf, secure } from './secure.ts'

t.setTimeout(60_000)

t.test('a handshake that does not end in ten seconds is cut off', async t => {
  const { a } = files(t, { a: pemOf(issued('a.example')) })
  const gw = await secure(t, [a!])
  const from = Date.now()
  const closed = ['', '\x16', '\x16\x03\x01\x02\x00\x01'].map(async begun => {
    const socket = connect(gw.port, '127.0.0.1')
    socket.on('error', () => {})
    socket.resume()
    socket.write(begun, 'latin1')
    await once(socket, 'close')
    return Date.now() - from
  })
  for (const ms of await Promise.all(closed)) t.ok(ms > 5_000 && ms < 15_000, `after ${ms} ms`)
  t.same(
    gw.log.lines.filter(({ level }) => level !== 'debug' && level !== 'info'),
    []
  )
})
