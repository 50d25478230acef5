import { Agent } from 'node:http'
import t from 'tap'
import { api, gateway } from './helpers/gateway.ts'
import { upstream } from './helpers/upstream.ts'
import { ask, tell } from './steps/ask.ts'

/** An API that names itself in its answers. */
function named(id: string, listenPath: string, more: { domain?: string; strip?: boolean; state?: object } = {}) {
  return api(id, 'svc://echo', {
    info: { state: { active: true, ...more.state } },
    server: {
      listenPath: { value: listenPath, strip: more.strip ?? true },
      ...(more.domain === undefined ? {} : { customDomain: { enabled: true, name: more.domain } })
    },
    middleware: {
      global: { transformResponseHeaders: { enabled: true, add: [{ name: 'X-Api', value: id }] } }
    }
  })
}

t.test(
  'the host decides first: custom domains in any case, with any port; others fall to the APIs of no host',
  async t => {
    const gw = await gateway(t, {
      apis: [
        named('a', '/app/', { domain: 'One.example' }),
        named('b', '/app/', { domain: 'two.example' }),
        named('c', '/app/'),
        named('d', '/app/deeper/'),
        named('e', '/only/'),
        named('f', '/', { domain: 'all.example' })
      ]
    })
    const cases: [host: string, path: string, api: string | undefined][] = [
      ['one.example', '/app/', 'a'],
      ['ONE.Example:8443', '/app/x', 'a'],
      ['one.example.', '/app', 'a'],
      ['one.example.:80', '/app', 'a'],
      ['two.example', '/app/x', 'b'],
      ['other.example', '/app/x', 'c'],
      ['xone.example', '/app/x', 'c'],
      ['one.example.org', '/app/x', 'c'],
      ['one.example', '/app/deeper/x', 'a'],
      ['other.example', '/app/deeper/x', 'd'],
      ['one.example', '/only/x', 'e'],
      ['all.example', '/only/x', 'f'],
      ['all.example', '/app/deeper/', 'f'],
      ['[::1]:80', '/app/x', 'c'],
      ['one.example', '/none', undefined],
      ['nobody.example', '/none', undefined]
    ]
    for (const [host, path, id] of cases) {
      const { headers, status, text } = await ask(gw, path, { headers: { Host: host } })
      t.equal(headers['x-api'], id, `${host}${path}`)
      if (id === undefined) {
        t.equal(status, 404)
        t.equal(text, '{"error":"Not Found"}')
      }
    }
  }
)

t.test('the longest listen path wins, and a path counts only up to a slash', async t => {
  const gw = await gateway(t, {
    apis: [
      named('app', '/app'),
      named('apple', '/apple/'),
      named('deep', '/app/v1/'),
      named('deeper', '/app/v1/items'),
      named('version', '/app/{version}/'),
      named('item', '/app/{version}/items/{id}/'),
      named('any', '/{one}/{two}/'),
      named('odd', '/o.d~d-_!$(x)/')
    ]
  })
  const cases: [path: string, api: string | undefined, upstream?: string][] = [
    ['/app', 'app', '/'],
    ['/app/', 'app', '/'],
    ['/app?x=/apple/', 'app', '/?x=/apple/'],
    ['/apple', 'apple', '/'],
    ['/apples', undefined],
    ['/App', undefined],
    ['/ap', undefined],
    ['/app/v1', 'deep', '/'],
    ['/app/v1/', 'deep', '/'],
    ['/app/v1/item', 'deep', '/item'],
    ['/app/v1/items', 'deeper', '/'],
    ['/app/v1/items/7', 'deeper', '/7'],
    ['/app/v2/items/7', 'item', '/'],
    ['/app/v2/items/7/x/', 'item', '/x/'],
    ['/app/v2/items', 'version', '/items'],
    ['/app/v2', 'version', '/'],
    ['/x/y/z', 'any', '/z'],
    ['/x/y', 'any', '/'],
    ['/x', undefined],
    ['/x/', undefined],
    ['/', undefined],
    ['/o.d~d-_!$(x)/y', 'odd', '/y'],
    ['/o%2Ed~d-_!$(%78)/y', 'odd', '/y']
  ]
  for (const [path, id, url] of cases) {
    const { headers, json, status } = await ask(gw, path)
    t.equal(headers['x-api'], id, path)
    if (id === undefined) t.equal(status, 404)
    else t.equal(json.path, url, path)
  }
})

t.test(
  'odd spellings of a path reach the API that its plain form reaches, and the upstream as they were written',
  async t => {
    const gw = await gateway(t, {
      apis: [named('app', '/app/'), named('admin', '/app/admin/'), named('keep', '/keep/', { strip: false })]
    })
    const cases: [path: string, api: string | undefined, upstream?: string][] = [
      ['//app/x', 'app', '/x'],
      ['/app//x', 'app', '//x'],
      ['/app///admin/x', 'admin', '/x'],
      ['/app/./admin/x', 'admin', '/x'],
      ['/other/../app/x', 'app', '/x'],
      ['/app/admin/../x', 'app', '/x'],
      ['/app/%2e%2e/app/admin/x', 'admin', '/x'],
      ['/app/x/..;y/admin/z', 'admin', '/z'],
      ['/app/..', undefined],
      ['/../../app/x', 'app', '/x'],
      ['/%61pp/x', 'app', '/x'],
      ['/app%2Fadmin/x', 'admin', '/x'],
      ['/app%5cadmin/x', 'admin', '/x'],
      ['/app\\admin/x', 'admin', '/x'],
      ['/app;p=1/x;q=2', 'app', '/x;q=2'],
      ['/app/a%2Fb%20c', 'app', '/a%2Fb%20c'],
      ['/app/a%2fb', 'app', '/a%2fb'],
      ['/keep//x/%7e', 'keep', '/keep//x/%7e'],
      ['//keep/x', 'keep', '//keep/x'],
      ['/app/?', 'app', '/?'],
      ['/app/x?a=%2F..&b=//', 'app', '/x?a=%2F..&b=//']
    ]
    for (const [path, id, url] of cases) {
      const { headers, json, status } = await ask(gw, path)
      t.equal(headers['x-api'], id, path)
      if (id === undefined) t.equal(status, 404)
      else t.equal(json.path, url, path)
    }
  }
)

t.test('the root takes what no other API takes, but not the probes, /svc/ and *', async t => {
  const gw = await gateway(t, { apis: [named('root', '/'), named('app', '/app/')] })
  for (const path of ['/', '/x', '/apple', '//', '/x//y', '/helloo', '/svcs'])
    t.equal((await ask(gw, path)).headers['x-api'], 'root', path)
  t.equal((await ask(gw, '/x//y')).json.path, '/x//y')
  t.equal((await ask(gw, '/app/')).headers['x-api'], 'app')
  for (const path of ['/hello', '/ready', '/svc/keys', '/x/../svc/keys', '//svc/keys', '/%73vc/keys']) {
    t.equal((await ask(gw, path)).headers['x-api'], undefined, path)
  }
  t.equal((await ask(gw, '*', { method: 'OPTIONS' })).headers['x-api'], undefined, '*')
})

t.test('base paths of upstreams and slashes at the end go up as configured', async t => {
  const up = await upstream(t, tell)
  const with_ = (id: string, url: string, more: { strip?: boolean; preserve?: boolean } = {}) =>
    api(id, up.url + url, {
      server: { listenPath: { value: `/${id}/`, strip: more.strip ?? true } },
      upstream: more.preserve ? { preserveTrailingSlash: { enabled: true } } : {}
    })
  const gw = await gateway(t, {
    apis: [
      with_('bare', ''),
      with_('slash', '/'),
      with_('base', '/v1'),
      with_('basey', '/v1/'),
      with_('whole', '/v1', { strip: false }),
      with_('kept', '/v1', { preserve: true })
    ]
  })
  const cases: [path: string, upstream: string][] = [
    ['/bare', '/'],
    ['/bare/', '/'],
    ['/bare/x/', '/x/'],
    ['/slash/x', '/x'],
    ['/base', '/v1'],
    ['/base/', '/v1'],
    ['/base/x/', '/v1/x/'],
    ['/base?q', '/v1?q'],
    ['/basey/x', '/v1/x'],
    ['/whole/x', '/v1/whole/x'],
    ['/whole', '/v1/whole'],
    ['/kept', '/v1'],
    ['/kept/', '/v1/'],
    ['/kept/x/', '/v1/x/']
  ]
  for (const [path, url] of cases) t.equal((await ask(gw, path)).json.url, url, path)
})

t.test('inactive and internal APIs have no route; activating one gives it one at once', async t => {
  const gw = await gateway(t, {
    apis: [
      named('off', '/off/', { state: { active: false } }),
      named('inner', '/inner/', { state: { internal: true } })
    ]
  })
  for (const path of ['/off/', '/inner/', '/inner']) t.equal((await ask(gw, path)).status, 404, path)
  t.equal((await gw.svc('PUT', '/svc/apis/oas/off', named('off', '/off/'))).status, 200)
  t.equal((await ask(gw, '/off/')).status, 200)
  t.equal((await gw.svc('PUT', '/svc/apis/oas/off', named('off', '/on/'))).status, 200)
  t.equal((await ask(gw, '/off/')).status, 404)
  t.equal((await ask(gw, '/on/')).status, 200)
  t.equal((await gw.svc('DELETE', '/svc/apis/oas/off')).status, 200)
  t.equal((await ask(gw, '/on/')).status, 404)
})

t.test('an expired API refuses with 403', async t => {
  const gw = await gateway(t, {
    apis: [api('old', 'svc://echo', { info: { expiration: '2020-01-01 00:00' } })]
  })
  const { status, text } = await ask(gw, '/old/')
  t.equal(status, 403)
  t.equal(text, '{"error":"API has expired, please check documentation or contact administrator"}')
})

t.test('a request under way ends by the configuration that it began with', async t => {
  let release: () => void = () => {}
  const reached = new Promise<void>(resolve => {
    release = resolve
  })
  let answer: () => void = () => {}
  const up = await upstream(t, (_req, res) => {
    answer = () => void res.end('slow')
    release()
  })
  const document = named('app', '/app/') as Record<string, any>
  document['x-svc-api-gateway'].upstream.url = up.url
  const gw = await gateway(t, { apis: [document] })
  const under = ask(gw, '/app/x')
  await reached
  t.equal((await gw.svc('DELETE', '/svc/apis/oas/app')).status, 200)
  t.equal((await ask(gw, '/app/x')).status, 404)
  answer()
  const { status, text, headers } = await under
  t.same([status, text, headers['x-api']], [200, 'slow', 'app'])
})

t.test('swapping routes under load loses no request', async t => {
  const gw = await gateway(t, { apis: [named('app', '/app/'), named('other', '/other/')] })
  const agent = new Agent({ keepAlive: true, maxSockets: 16 })
  t.teardown(() => agent.destroy())
  let ended = false
  let passed = 0
  const faults: number[] = []
  const clients = Array.from({ length: 16 }, async () => {
    while (!ended) {
      const { status, headers } = await ask(gw, '/app/x', { agent })
      if (status === 200 && headers['x-api'] === 'app') passed++
      else faults.push(status)
    }
  })
  for (let i = 0; i < 40; i++) {
    await gw.svc('PUT', '/svc/apis/oas/app', named('app', '/app/', { strip: i % 2 === 0 }))
    if (i % 2 === 0) await gw.svc('POST', '/svc/apis/oas', named(`extra${i}`, `/extra${i}/`))
    else await gw.svc('DELETE', `/svc/apis/oas/extra${i - 1}`)
  }
  ended = true
  await Promise.all(clients)
  t.same(faults, [])
  t.ok(passed > 100, `${passed} passed`)
})
