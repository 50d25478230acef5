import t from 'tap'
import { envelope } from '../../../streams/clients/envelope.ts'
import { deliveryOptions } from '../../../streams/options.ts'
import { item } from './stand.ts'

const options = { ...deliveryOptions({}), headers: ['content-type', 'x-shown', '__proto__'] }
const json = (type: string) => ({ headers: [['Content-Type', Buffer.from(type)]] as const })

t.test('a value stands as JSON where its type says so and it is', t => {
  const cases: [value: string, type: string, written: string][] = [
    ['{"a":1}', 'application/json', '{"a":1}'],
    ['{"a":1}', 'Application/JSON; charset=utf-8', '{"a":1}'],
    ['[1,\r\n 2]', 'application/vnd.x+json', '[1,   2]'],
    ['12345678901234567890.10', 'application/json', '12345678901234567890.10'],
    ['{"a":"\\n"}', 'application/json', '{"a":"\\n"}'],
    ['{"a":', 'application/json', '"{\\"a\\":"'],
    ['{},"forged":{}', 'application/json', '"{},\\"forged\\":{}"'],
    ['\ufeff{}', 'application/json', '"\ufeff{}"'],
    ['{"a":1}', 'text/plain', '"{\\"a\\":1}"'],
    ['', 'application/json', '""']
  ]
  for (const [value, type, written] of cases) {
    const text = envelope(item(value, json(type)), { ...options, headers: [] }, '')
    t.ok(text.endsWith(`"headers":{},"value":${written}}`), text)
    t.doesNotThrow(() => JSON.parse(text))
    t.notMatch(text, /[\r\n]/)
  }
  t.end()
})

t.test('key, value and headers that are no text are told apart from text', t => {
  const binary = Buffer.from([0xff])
  const made = JSON.parse(
    envelope(
      item(binary, {
        key: binary,
        headers: [
          ['X-Shown', Buffer.from('a')],
          ['X-Shown', Buffer.from('b')],
          ['hidden', Buffer.from('c')],
          ['__proto__', binary]
        ]
      }),
      options,
      'msg'
    )
  )
  t.match(made, { type: 'msg', key: '/w==', key_base64: true, value: '/w==', base64: true })
  t.same(Object.keys(made.headers), ['X-Shown', '__proto__'])
  t.same(made.headers['X-Shown'], ['a', 'b'])
  t.end()
})
