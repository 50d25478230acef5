import { connect } from 'node:net'
import t from 'tap'
import { gateway } from '../helpers/gateway.ts'
import { type Answered, ask, eventsOf, valuesOf } from '../steps/ask.ts'
import { basicly, user, withBasic } from './withBasic.ts'

const FORM = { enabled: true, userRegexp: '<User>(.*?)</User>', passwordRegexp: '<Password>(.*?)</Password>' }
const form = (more: object = {}) => ({ extractCredentialsFromBody: { ...FORM, ...more } })
const said = ({ status, json }: Answered) => [status, json?.error]
const letter = (name: string, password: string, rest = '') =>
  `<Login><User>${name}</User><Password>${password}</Password>${rest}</Login>`
const post = (body: string | Buffer, headers: Record<string, string> = {}) => ({ method: 'POST', body, headers })

t.test('credentials in the body, which goes up as it came', async t => {
  const gw = await gateway(t, { apis: [withBasic('a', 'svc://echo', form(), { stripAuthorizationData: true })] })
  await user(gw, 'jörg', 'a:b "c"', ['a'])
  const body = letter('jörg', 'a:b "c"', 'ä'.repeat(2000))
  for (const _ of ['hashed', 'remembered']) {
    const { status, json } = await ask(gw, '/a/login', post(body, { Authorization: 'Bearer of-the-upstream' }))
    t.equal(status, 200)
    t.equal(json.body, body)
    t.same(json.headers.authorization, 'Bearer of-the-upstream', 'no place of these credentials')
  }
  const chunked = { 'Transfer-Encoding': 'chunked' }
  t.equal((await ask(gw, '/a/', post(body, chunked))).status, 200)
})

t.test('what is not there is told', async t => {
  const noGroups = { userRegexp: '<User>.*?</User>', passwordRegexp: '<Password>.*?</Password>' }
  const gw = await gateway(t, {
    settings: { gateway: { http_server_options: { max_request_body_size: 100_000 } } },
    apis: [
      withBasic('a', 'svc://echo', form()),
      withBasic('user', 'svc://echo', form(noGroups)),
      withBasic('password', 'svc://echo', form({ passwordRegexp: noGroups.passwordRegexp }))
    ]
  })
  await user(gw, 'alice', 'secret', ['a', 'user', 'password'])
  const whole = letter('alice', 'secret')
  const cases: [string, string, ReturnType<typeof post> | object, number, string][] = [
    ['no body', '/a/', {}, 400, 'Body do not contain username'],
    ['an empty body', '/a/', post(''), 400, 'Body do not contain username'],
    [
      'a header instead',
      '/a/',
      { headers: { Authorization: basicly('alice', 'secret') } },
      400,
      'Body do not contain username'
    ],
    ['no user', '/a/', post('<Password>secret</Password>'), 400, 'Body do not contain username'],
    ['no password', '/a/', post('<User>alice</User>'), 400, 'Body do not contain password'],
    ['bytes', '/a/', post(Buffer.alloc(5000, 0xff)), 400, 'Body do not contain username'],
    ['behind what is looked at', '/a/', post(' '.repeat(70_000) + whole), 400, 'Body do not contain username'],
    ['a user that is no group', '/user/', post(whole), 400, 'username should be inside regexp match group'],
    ['a password that is no group', '/password/', post(whole), 400, 'password should be inside regexp match group'],
    ['a wrong password', '/a/', post(letter('alice', 'wrong')), 401, 'User not authorised'],
    ['an unknown user', '/a/', post(letter('nobody', 'secret')), 401, 'User not authorised'],
    ['an empty user', '/a/', post(letter('', 'secret')), 401, 'User not authorised'],
    ['too long a body', '/a/', post(whole + ' '.repeat(100_000)), 413, 'Request Entity Too Large']
  ]
  for (const [what, path, asked, status, message] of cases) {
    const answer = await ask(gw, path, asked)
    t.same(said(answer), [status, message], what)
    t.equal(answer.headers['www-authenticate'], status === 401 ? 'Basic realm="a"' : undefined, what)
  }
  t.match(eventsOf(gw)[0], { event: 'AuthFailure', api_id: 'a' })
  t.equal((await ask(gw, '/a/', post(whole))).status, 200)
})

t.test('a client that sends half a body is waited for as long as for any body', async t => {
  const gw = await gateway(t, {
    settings: { gateway: { http_server_options: { read_timeout: 0.2 } } },
    apis: [withBasic('a', 'svc://echo', form())]
  })
  const socket = connect(Number(new URL(gw.url).port), '127.0.0.1')
  socket.write('POST /a/ HTTP/1.1\r\nHost: a\r\nContent-Length: 100\r\n\r\n<User>')
  let text = ''
  for await (const chunk of socket) text += chunk
  t.match(text, /^HTTP\/1\.1 408 /)
})

t.test('a body is read once, also where several methods, and the document, look into it', async t => {
  const content = { 'application/json': { schema: { type: 'object', required: ['user', 'password'] } } }
  const document: any = withBasic(
    'a',
    'svc://echo',
    {
      extractCredentialsFromBody: {
        enabled: true,
        userRegexp: '"user":"(\\w+)"',
        passwordRegexp: '"password":"(\\w+)"'
      }
    },
    { securityProcessingMode: 'compliant', security: [['users']] },
    { middleware: { operations: { login: { validateRequest: { enabled: true, errorResponseCode: 422 } } } } }
  )
  document.paths = { '/login': { post: { operationId: 'login', requestBody: { required: true, content } } } }
  document.security = [{ users: [] }]
  const gw = await gateway(t, { apis: [document] })
  await user(gw, 'alice', 'secret', ['a'])
  const json = { 'Content-Type': 'application/json' }
  const good = '{"user":"alice","password":"secret"}'
  const answer = await ask(gw, '/a/login', post(good, json))
  t.equal(answer.status, 200)
  t.equal(answer.json.body, good)
  t.equal((await ask(gw, '/a/login', post('{"x":{"user":"alice","password":"secret"}}', json))).status, 422)
  t.equal((await ask(gw, '/a/login', post('{"user":"alice","password":"wrong"}', json))).status, 401)
  t.same(valuesOf(answer.raw, 'www-authenticate'), [])
})
