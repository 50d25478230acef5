import { createHash } from 'node:crypto'
import t from 'tap'
import { handClock } from '../helpers/clock.ts'
import { api, gateway, rights } from '../helpers/gateway.ts'
import { upstream } from '../helpers/upstream.ts'
import { type Answered, ask, eventsOf, tell, valuesOf } from '../steps/ask.ts'

const said = ({ status, json }: Answered) => [status, json?.error]
const BAD = [401, 'Request signature verification failed']

function signedApi(id: string, signatureValidation: object, authentication: object = {}, url = 'svc://echo') {
  const given = { algorithm: 'MasherySHA256', header: 'X-Signature', secret: 'shared', allowedClockSkew: 2 }
  const validation = { enabled: true, ...given, ...signatureValidation }
  return api(id, url, {
    server: {
      authentication: {
        enabled: true,
        securitySchemes: { key: { enabled: true, signatureValidation: validation } },
        ...authentication
      }
    }
  })
}

const sign = (algorithm: string, token: string, secret: string, second: number) =>
  createHash(algorithm).update(`${token}${secret}${second}`).digest('hex')

t.test('a token comes with a signature of this second, give or take the skew', async t => {
  const clock = handClock()
  const now = clock.now() / 1000
  const gw = await gateway(t, {
    apis: [
      signedApi('a', {}),
      signedApi('md5', { algorithm: 'MasheryMD5' }),
      signedApi('strict', { allowedClockSkew: 0 }),
      signedApi('wide', { allowedClockSkew: 3600 })
    ],
    clock
  })
  const token = await gw.key(rights('a', 'md5', 'strict', 'wide'))
  const good = sign('sha256', token, 'shared', now)
  const cases: [string, string, string | null, boolean][] = [
    ['now', 'a', good, true],
    ['in upper case', 'a', good.toUpperCase(), true],
    ['two seconds ago', 'a', sign('sha256', token, 'shared', now - 2), true],
    ['in two seconds', 'a', sign('sha256', token, 'shared', now + 2), true],
    ['three seconds ago', 'a', sign('sha256', token, 'shared', now - 3), false],
    ['in three seconds', 'a', sign('sha256', token, 'shared', now + 3), false],
    ['none', 'a', null, false],
    ['empty', 'a', '', false],
    ['with another secret', 'a', sign('sha256', token, 'other', now), false],
    ['with another token', 'a', sign('sha256', 'other', 'shared', now), false],
    ['with another hash', 'a', sign('md5', token, 'shared', now), false],
    ['of another length', 'a', good.slice(2), false],
    ['longer', 'a', `${good}00`, false],
    ['no hexadecimal', 'a', `${good.slice(0, -1)}g`, false],
    ['base64', 'a', Buffer.from(good, 'hex').toString('base64'), false],
    ['MD5', 'md5', sign('md5', token, 'shared', now), true],
    ['SHA-256 for MD5', 'md5', good, false],
    ['without skew, now', 'strict', good, true],
    ['without skew, a second ago', 'strict', sign('sha256', token, 'shared', now - 1), false],
    ['an hour ago', 'wide', sign('sha256', token, 'shared', now - 3600), true],
    ['in an hour', 'wide', sign('sha256', token, 'shared', now + 3600), true],
    ['more than an hour ago', 'wide', sign('sha256', token, 'shared', now - 3601), false],
    ['nonsense, where much is tried', 'wide', good.replaceAll(/\d/g, '0'), false]
  ]
  for (const [what, id, signature, passes] of cases) {
    const headers = { Authorization: token, ...(signature === null ? {} : { 'X-Signature': signature }) }
    const answer = await ask(gw, `/${id}/`, { headers })
    if (passes) t.equal(answer.status, 200, what)
    else t.same(said(answer), BAD, what)
  }
  const [first] = eventsOf(gw)
  t.match(first, { event: 'AuthFailure', api_id: 'a', path: '/a/' })
  t.notMatch(JSON.stringify(gw.log.lines), new RegExp(`${token}|shared`))
  const unknown = sign('sha256', 'nobody', 'shared', now)
  t.same(said(await ask(gw, '/a/', { headers: { Authorization: 'nobody', 'X-Signature': unknown } })), [
    403,
    'Access to this API has been disallowed'
  ])
})

t.test('status and text are the scheme\u2019s own', async t => {
  const gw = await gateway(t, { apis: [signedApi('a', { errorCode: 418, errorMessage: 'No <tea> "here"' })] })
  const token = await gw.key(rights('a'))
  t.same(said(await ask(gw, '/a/', { headers: { Authorization: token, 'X-Signature': '00' } })), [
    418,
    'No <tea> "here"'
  ])
})

t.test('the header counts, else the query parameter', async t => {
  const clock = handClock()
  const gw = await gateway(t, {
    apis: [
      signedApi('both', { query: { enabled: true, name: 'sig' } }),
      signedApi('query', { header: '', query: { enabled: true, name: 'sig' } })
    ],
    clock
  })
  const token = await gw.key(rights('both', 'query'))
  const good = sign('sha256', token, 'shared', clock.now() / 1000)
  const asked = async (path: string, header?: string) =>
    (
      await ask(gw, path, {
        headers: { Authorization: token, ...(header === undefined ? {} : { 'X-Signature': header }) }
      })
    ).status
  t.equal(await asked(`/both/?sig=${good}`), 200)
  t.equal(await asked('/both/?sig=wrong', good), 200)
  t.equal(await asked(`/both/?sig=${good}`, 'wrong'), 401)
  t.equal(await asked(`/both/?sig=${good}`, ''), 200)
  t.equal(await asked(`/query/?sig=${good}`), 200)
  t.equal(await asked('/query/', good), 401)
})

t.test('the secret may be the key\u2019s own; without one nothing is signed', async t => {
  const clock = handClock()
  const now = clock.now() / 1000
  const gw = await gateway(t, { apis: [signedApi('a', { secret: '$svc_meta.secret' })], clock })
  const own = await gw.key({ ...rights('a'), meta_data: { secret: 'of the key' } })
  const none = await gw.key(rights('a'))
  const status = async (token: string, secret: string) =>
    (await ask(gw, '/a/', { headers: { Authorization: token, 'X-Signature': sign('sha256', token, secret, now) } }))
      .status
  t.equal(await status(own, 'of the key'), 200)
  t.equal(await status(own, '$svc_meta.secret'), 401)
  t.equal(await status(own, ''), 401)
  t.equal(await status(none, ''), 401)
})

t.test('stripAuthorizationData takes the signature out as well, wherever it may stand', async t => {
  const clock = handClock()
  const up = await upstream(t, tell)
  const places = { query: { enabled: true, name: 'sig' } }
  const gw = await gateway(t, {
    apis: [
      signedApi('kept', places, {}, up.url),
      signedApi('gone', places, { stripAuthorizationData: true }, up.url),
      signedApi('query', { header: '', ...places }, { stripAuthorizationData: true }, up.url)
    ],
    clock
  })
  const token = await gw.key(rights('kept', 'gone', 'query'))
  const good = sign('sha256', token, 'shared', clock.now() / 1000)
  const sent = async (id: string) => {
    const headers = { Authorization: token, 'X-Signature': good, 'X-Other': 'y' }
    const { json } = await ask(gw, `/${id}/?a=1&sig=${good}&b=2`, { headers })
    const signatures = valuesOf(json.headers, 'x-signature').length
    return [json.url.split('?')[1], signatures, valuesOf(json.headers, 'authorization').length]
  }
  t.same(await sent('kept'), [`a=1&sig=${good}&b=2`, 1, 1])
  t.same(await sent('gone'), ['a=1&b=2', 0, 0])
  t.same(await sent('query'), ['a=1&b=2', 1, 0])
})
