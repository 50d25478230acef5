import { connect } from 'node:net'
import { setFlagsFromString } from 'node:v8'
import { runInNewContext } from 'node:vm'
import t from 'tap'
import { eventually, wire } from '../framing/wire.ts'
import { api, gateway } from '../helpers/gateway.ts'
import { rawUpstream } from '../helpers/upstream.ts'

t.setTimeout(180_000)

setFlagsFromString('--expose-gc')
const collect: () => void = runInNewContext('gc')

const TWO_GIB = 2 ** 31
const MIB = 2 ** 20
const CHUNK = Buffer.concat([Buffer.from('100000\r\n'), Buffer.alloc(MIB, 'a'), Buffer.from('\r\n')])
const END = '\r\n0\r\n\r\n'
/** Client, gateway and upstream share this process; what all three hold of a flow must stay below. */
const MOST_HELD = 150 * MIB

/** Watches how far the memory of this process rises above where it stood. */
function watched() {
  collect()
  const { rss } = process.memoryUsage()
  let most = 0
  const timer = setInterval(() => {
    // What is held, not what waits to be collected: on a quick machine that alone comes near the bound.
    collect()
    most = Math.max(most, process.memoryUsage().rss - rss)
  }, 100)
  return () => {
    clearInterval(timer)
    return most
  }
}

/** Tells whether a chunked message has come to its end, in whatever pieces its last bytes come. */
function endSeen(): (data: Buffer | string) => boolean {
  let last = ''
  return data => {
    last = (last + data.toString('latin1', Math.max(0, data.length - END.length))).slice(-END.length)
    return last === END
  }
}

t.test('2 GiB in chunks go up whole, in constant memory', async t => {
  let bytes = 0
  const up = await rawUpstream(t, socket => {
    const atEnd = endSeen()
    socket.on('data', data => {
      bytes += data.length
      if (atEnd(data)) socket.write('HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok')
    })
  })
  const gw = await gateway(t, { apis: [api('all', up.url)] })
  const most = watched()
  const client = wire(t, gw.url)
  client.send('POST /all/x HTTP/1.1\r\nHost: a.test\r\nTransfer-Encoding: chunked\r\n\r\n')
  let left = TWO_GIB / MIB
  const more = () => {
    for (let flows = true; flows && left > 0; left--) flows = client.socket.write(CHUNK)
    if (left > 0) return
    client.socket.off('drain', more)
    client.send('0\r\n\r\n')
  }
  client.socket.on('drain', more)
  more()
  await eventually(() => client.answers.length === 1, 'the answer', 60_000)
  const rose = most()
  t.equal(client.answers[0]!.body, 'ok')
  t.ok(bytes > TWO_GIB, `${bytes} bytes`)
  t.ok(rose < MOST_HELD, `memory rose by ${Math.round(rose / MIB)} MiB`)
})

t.test('2 GiB come down whole, in constant memory', async t => {
  const up = await rawUpstream(t, socket => {
    let left = TWO_GIB / MIB
    const more = () => {
      for (let flows = true; flows && left > 0; left--) flows = socket.write(CHUNK)
      if (left > 0) return
      socket.off('drain', more)
      socket.write('0\r\n\r\n')
    }
    socket.once('data', () => {
      socket.write('HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n')
      socket.on('drain', more)
      more()
    })
  })
  const gw = await gateway(t, { apis: [api('all', up.url)] })
  const most = watched()
  const client = connect(Number(new URL(gw.url).port), '127.0.0.1')
  t.teardown(() => client.destroy())
  let bytes = 0
  let ended = false
  const atEnd = endSeen()
  client.on('data', data => {
    bytes += data.length
    ended = atEnd(data)
  })
  client.write('GET /all/x HTTP/1.1\r\nHost: a.test\r\n\r\n')
  await eventually(() => ended, 'the end of the answer', 60_000)
  const rose = most()
  t.ok(bytes > TWO_GIB, `${bytes} bytes`)
  t.ok(rose < MOST_HELD, `memory rose by ${Math.round(rose / MIB)} MiB`)
})

t.test('an event stream passes each event on at once and for as long as it lives, in flat memory', async t => {
  let tick = () => {}
  const up = await rawUpstream(t, socket => {
    let number = 0
    socket.once('data', () => {
      socket.write('HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n')
    })
    tick = () => {
      const event = `data: ${number++}\n\n`
      socket.write(`${event.length.toString(16)}\r\n${event}\r\n`)
    }
  })
  const gw = await gateway(t, { apis: [api('all', up.url)] })
  const client = connect(Number(new URL(gw.url).port), '127.0.0.1')
  t.teardown(() => client.destroy())
  let last = ''
  let events = 0
  let heard = () => {}
  client.setEncoding('latin1')
  client.on('data', text => {
    last = String(text)
    if (last.includes('data: ')) {
      events++
      heard()
    } else heard()
  })
  client.write('GET /all/x HTTP/1.1\r\nHost: a.test\r\n\r\n')
  // The head comes without waiting for a first event.
  await new Promise<void>(resolve => {
    heard = resolve
  })
  t.match(last, /^HTTP\/1\.1 200 /)
  const round = async (count: number) => {
    for (let i = 0; i < count; i++) {
      const next = new Promise<void>(resolve => {
        heard = resolve
      })
      tick()
      await next
    }
    collect()
    const { heapUsed, external } = process.memoryUsage()
    return heapUsed + external
  }
  const before = await round(5_000)
  const after = await round(20_000)
  t.equal(events, 25_000, 'every event came by itself')
  t.match(last, 'data: 24999')
  t.ok(after - before < 3 * MIB, `memory rose by ${after - before} bytes`)
})
