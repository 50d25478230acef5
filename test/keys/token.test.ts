import { randomBytes } from 'node:crypto'
import t from 'tap'
import { customId, embeddedOrg, idFault, looksLikeToken, newToken, tokenId } from '../../gateway/keys/token.ts'

const random = { bytes: randomBytes }

t.test('a new token has its form, and one changed letter breaks its checksum', async t => {
  for (let i = 0; i < 200; i++) {
    const token = newToken(random)
    t.match(token, /^svc_[0-9A-Za-z]{36}$/)
    t.ok(looksLikeToken(token))
    const at = 4 + (i % 36)
    const other = token[at] === 'x' ? 'y' : 'x'
    t.notOk(looksLikeToken(token.slice(0, at) + other + token.slice(at + 1)))
  }
})

t.test('every digit of a body is as likely as any other', async t => {
  const seen = new Map<string, number>()
  for (let i = 0; i < 2000; i++) {
    for (const digit of newToken(random).slice(4, 34)) seen.set(digit, (seen.get(digit) ?? 0) + 1)
  }
  t.equal(seen.size, 62)
  const counts = [...seen.values()]
  t.ok(Math.max(...counts) < 1.4 * Math.min(...counts), 'spread of 60,000 digits')
})

t.test('bytes that would favour some digits are thrown away', async t => {
  let call = 0
  const token = newToken({ bytes: count => Buffer.alloc(count, call++ === 0 ? 255 : 1) })
  t.equal(token.slice(4, 34), '1'.repeat(30))
})

t.test('ids of custom names depend on the organisation, ids of tokens do not', async t => {
  t.not(customId('a', 'x'), customId('b', 'x'))
  t.not(customId('a', 'bc'), customId('ab', 'c'))
  t.not(customId('', 'x'), tokenId('x'))
})

t.test('ids that cannot be told apart or presented have a fault', async t => {
  for (const id of ['ab', 'x'.repeat(513), 'a\0b', 'a\nb', ' abc', 'abc ', '\ud800abc'])
    t.ok(idFault(id, 3), JSON.stringify(id))
  for (const id of ['abc', 'x'.repeat(512), 'ä/ö ü', 'eyJvcmciOiJhIn0=']) t.equal(idFault(id, 3), null, id)
})

t.test('the organisation inside a key of a comparable system is found, and nothing else', async t => {
  t.equal(embeddedOrg(Buffer.from('{"org":"o1","id":"x","h":"murmur64"}').toString('base64')), 'o1')
  for (const key of ['abc', 'ey', 'eyJvcmciOjF9', 'e30=', `ey${'x'.repeat(600)}`]) t.equal(embeddedOrg(key), null)
})
