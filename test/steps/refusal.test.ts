import t from 'tap'
import { handClock } from '../helpers/clock.ts'
import { api, gateway, rights, withKey } from '../helpers/gateway.ts'
import { ask, eventsOf } from './ask.ts'

const XML = '<?xml version="1.0" encoding="UTF-8"?>\n<error>Authorization field missing</error>'

t.test('a refusal is XML when the content type of the request is XML, else compact JSON', async t => {
  const gw = await gateway(t, { apis: [api('a', 'svc://echo', { server: withKey })] })
  const cases: [type: string, isXml: boolean][] = [
    ['text/xml', true],
    ['application/xml', true],
    ['application/soap+xml', true],
    ['Application/XML; charset=utf-8', true],
    ['text/xml;charset="utf-8"', true],
    ['application/soap+xml; charset=utf-8; action="urn:x"', true],
    ['application/json', false],
    ['application/xml-dtd', false],
    ['application/xhtml+xml', false],
    ['text/xmlish', false],
    ['text/plain; x=text/xml', false],
    ['', false]
  ]
  for (const [type, isXml] of cases)
    for (const body of ['<a/>', undefined]) {
      const answer = await ask(gw, '/a/', {
        method: body === undefined ? 'GET' : 'POST',
        headers: { 'Content-Type': type },
        ...(body === undefined ? {} : { body })
      })
      t.equal(answer.status, 401)
      t.equal(
        answer.headers['content-type'],
        isXml ? 'application/xml' : 'application/json',
        `${type} ${body ?? 'none'}`
      )
      t.equal(answer.text, isXml ? XML : '{"error":"Authorization field missing"}', `${type} ${body ?? 'none'}`)
      t.equal(answer.headers['content-length'], String(Buffer.byteLength(answer.text)))
    }
})

t.test('a flood of one event is a line at once and then one a second with its number; others come at once', async t => {
  const clock = handClock()
  const gw = await gateway(t, { clock, apis: [api('a', 'svc://echo', { server: withKey })] })
  const one = await gw.key({ ...rights('a'), rate: 1, per: 3600 })
  const two = await gw.key({ ...rights('a'), rate: 1, per: 3600 })
  const flood = async (key: string, times: number) => {
    for (let i = 0; i < times; i++) await ask(gw, '/a/', { headers: { Authorization: key } })
  }
  const seen = () => eventsOf(gw).map(({ event, count }) => [event, count])
  await flood(one, 51)
  await flood(two, 3)
  t.same(seen(), [
    ['RatelimitExceeded', undefined],
    ['RatelimitExceeded', undefined]
  ])
  await clock.move(1000)
  t.same(seen().slice(2), [
    ['RatelimitExceeded', 49],
    ['RatelimitExceeded', undefined]
  ])
  await clock.move(1000)
  t.equal(eventsOf(gw).length, 4, 'what is over is not written again')
  await flood(one, 1)
  t.equal(eventsOf(gw).length, 5)
  t.match(eventsOf(gw)[4], { message: 'Rate Limit Exceeded', api_id: 'a', path: '/a/', origin: '127.0.0.1' })
})
