import { hashSync } from 'bcryptjs'
import t from 'tap'
import { Refused } from '../../control/endpoint.ts'
import { hashPassword, verifyPassword } from '../../control/passwords.ts'

t.test('a password fits its own hash alone', async t => {
  const text = 'schlüssel \ud83d\udd11'
  const hash = await hashPassword(text)
  t.match(hash, /^\$2[aby]\$10\$.{53}$/)
  t.not(await hashPassword(text), hash, 'twice the same password does not show')
  t.equal(await verifyPassword(text, hash), true)
  for (const other of ['', 'schlüssel', `${text} `, `${text}\u0000`, text.toUpperCase()])
    t.equal(await verifyPassword(other, hash), false, other)
})

t.test('what bcrypt would cut off is refused, and matches nothing', async t => {
  const longest = 'ö'.repeat(36)
  const hash = await hashPassword(longest)
  t.equal(await verifyPassword(longest, hash), true)
  t.match(await hashPassword(`${longest}x`).catch(cause => cause), { status: 400 })
  t.equal(await verifyPassword(`${longest}x`, hash), false)
})

t.test('a hash that is none, or asks for hours of work, matches nothing at once', async t => {
  const hash = await hashPassword('secret')
  const costly = `$2b$31$${hash.slice(7)}`
  for (const other of ['', 'secret', '$2b$10$', hash.slice(0, -1), `${hash}x`, hash.replace('$2b$', '$9z$'), costly])
    t.equal(await verifyPassword('secret', other), false, other)
})

t.test('many at once: those for whom there is no place are told to come back', async t => {
  // The least cost: what is looked at here is the queue.
  const hash = hashSync('secret', 4)
  const asked = Array.from({ length: 136 }, () => verifyPassword('secret', hash).catch(cause => cause))
  const told = await Promise.all(asked)
  t.equal(told.filter(value => value === true).length, 128)
  const refused = told.filter(value => value instanceof Refused)
  t.equal(refused.length, 8)
  t.match(refused[0], { status: 503, headers: { 'Retry-After': '1' } })
  t.equal(await verifyPassword('secret', hash), true)
})
