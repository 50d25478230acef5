import t from 'tap'
import { load } from '../../config/load.ts'
import { Invalid } from '../../config/validate.ts'
import { readApi } from '../../gateway/documents/readApi.ts'
import { api } from '../helpers/gateway.ts'

const SECRET = 'a secret of the tests'

/** The faults, one line each; none: it loads. */
function faults(file: unknown, env: Record<string, string> = {}): string[] {
  try {
    load({ file: file === null ? null : typeof file === 'string' ? file : JSON.stringify(file), env })
    return []
  } catch (cause) {
    if (!(cause instanceof Invalid)) throw cause
    return cause.faults.map(({ path, message }) => `${path} ${message}`.trim())
  }
}

t.test('without a file the gateway binds to loopback, with one to all interfaces', async t => {
  t.equal(load({ file: null, env: {} }).gateway.listen_address, '127.0.0.1')
  t.equal(load({ file: JSON.stringify({ gateway: { secret: SECRET } }), env: {} }).gateway.listen_address, '')
  const bracketed = load({ file: null, env: { SVC_GATEWAY__LISTEN_ADDRESS: '[::1]' } })
  t.equal(bracketed.gateway.listen_address, '::1')
})

t.test('every fault is told at once, rules across members included', async t => {
  const file = {
    gateway: { listen_port: 'x', lisen: 1, secret: 'short', trusted_proxies: ['10.0.0.0/8', '10.0.0.0/33'] },
    manage: {}
  }
  const env = { SVC_GATEWAY__NOPE: '1', SVC_GATEWAY__HASH_KEYS: 'maybe', SVC_STORAGE__COUNTERS__MAX_ENTRIES: '1' }
  t.same(faults(file, env).sort(), [
    '/gateway/hash_keys must be boolean (SVC_GATEWAY__HASH_KEYS)',
    '/gateway/lisen is not known here',
    '/gateway/listen_port must be integer',
    '/gateway/secret must have at least 16 characters where the listener is not bound to loopback',
    '/gateway/trusted_proxies/1 must be an address or a CIDR',
    '/manage is not known here',
    '/storage/counters/max_entries must be >= 1024 (SVC_STORAGE__COUNTERS__MAX_ENTRIES)',
    'SVC_GATEWAY__NOPE is not known here (environment)'
  ])
})

t.test('the environment wins over the file, section by section', async t => {
  const { gateway, storage } = load({
    file: JSON.stringify({ gateway: { secret: SECRET, listen_port: 1, access_logs: { path: 'a' } } }),
    env: {
      SVC_GATEWAY__LISTEN_PORT: '9000',
      SVC_GATEWAY__ACCESS_LOGS: '{"enabled":false}',
      SVC_GATEWAY__ACCESS_LOGS__PATH: 'b',
      SVC_GATEWAY__TRUSTED_PROXIES: '["10.0.0.0/8"]',
      SVC_STORAGE__DOCUMENTS__TYPE: 'memory',
      SVC_KEY: 'not of this program',
      SVC_OTHER__X: 'nor this'
    }
  })
  t.equal(gateway.listen_port, 9000)
  t.same(gateway.access_logs, { enabled: false, path: 'b' })
  t.same(gateway.trusted_proxies, ['10.0.0.0/8'])
  t.equal(storage.documents.type, 'memory')
  t.ok(Object.isFrozen(gateway.access_logs))
})

t.test('names of the environment are upper case and known', async t => {
  for (const name of [
    'SVC_GATEWAY__listen_port',
    'SVC_GATEWAY__',
    'SVC_GATEWAY____PROTO__',
    'SVC_GATEWAY__LISTEN_PORT__X',
    'SVC_GATEWAY__CONSTRUCTOR',
    'SVC_MANAGEMENT__X',
    'SVC_STORAGE__X'
  ])
    t.same(faults(null, { [name]: '1' }), [`${name} is not known here (environment)`])
  t.same(faults(null, { SVC_GATEWAY__LISTEN_PORT: '' }), [
    '/gateway/listen_port must be integer (SVC_GATEWAY__LISTEN_PORT)'
  ])
})

t.test('a file that is no JSON object is refused, with the place and without its text', async t => {
  t.same(faults('{"gateway":\n{"secret":oops-a-secret}}'), [
    'the settings file is not JSON: unexpected character (line 2 column 11)'
  ])
  for (const text of ['', ' ', '[]', 'null', '"x"', '{', '{"gateway":{}', 'gateway: {}'])
    t.equal(faults(text).length, 1, JSON.stringify(text))
  t.same(faults('{"gateway":{"secret":"a-long-secret-here","secret":"x"}}'), ['/gateway/secret stands there twice'])
  t.match(faults('{"__proto__":{"gateway":{}}}')[0], /__proto__/)
  t.match(faults('{"gateway":{"__proto__":{}}}')[0], /__proto__/)
  t.match(faults(`${'['.repeat(200)}${']'.repeat(200)}`)[0], /nested deeper/)
})

t.test('a settings file must name a secret, and a long one where others can reach the listener', async t => {
  t.same(faults({}), ['/gateway/secret is required with a settings file'])
  t.same(faults({}, { SVC_GATEWAY__SECRET: SECRET }), [])
  t.same(faults({ gateway: { listen_address: '127.0.0.1', secret: 'short' } }), [])
  t.same(faults({ gateway: { listen_address: 'LocalHost', secret: 'short' } }), [])
  t.same(faults({ gateway: { listen_address: '[::1]', secret: 'short' } }), [])
  for (const listen_address of ['', '0.0.0.0', '::', '[::]', '10.0.0.1', 'gateway.example', '127.evil.example'])
    t.equal(faults({ gateway: { listen_address, secret: 'fifteen letters' } }).length, 1, listen_address)
  t.match(faults({ gateway: { secret: 'a secret with ünïcode' } })[0], /visible ASCII/)
})

t.test('the management interface has the same rule; without a secret of its own it has the gateway’s', async t => {
  const gateway = { listen_address: '127.0.0.1', secret: 'short' }
  const listen_address = '0.0.0.0'
  t.equal(faults({ gateway, management: { listen_address } }).length, 1)
  t.equal(faults({ gateway, management: { listen_address, enabled: false } }).length, 0)
  t.equal(faults({ gateway, management: { listen_address, admin_secret: 'short too' } }).length, 1)
  t.equal(faults({ gateway, management: { listen_address, admin_secret: SECRET } }).length, 0)
})

t.test('streaming counts where both sections enable it', async t => {
  const both = { streaming: { enabled: true } }
  t.same(faults({ gateway: { secret: SECRET, ...both }, management: both }), [])
})

t.test('what only other members can tell is told', async t => {
  const gateway = { secret: SECRET }
  t.same(faults({ gateway, storage: { documents: { type: 'postgres', url: 'mysql://x' } } }), [
    '/storage/documents/url must be postgres://user:password@host:port/database'
  ])
  t.same(faults({ gateway, management: { audit: { store_type: 'file' } } }), [
    '/management/audit/path is required with store_type file'
  ])
  t.same(faults({ gateway, management: { import_private_networks: ['10.0.0.0/8', 'home'] } }), [
    '/management/import_private_networks/1 must be an address or a CIDR'
  ])
  for (const where of [{ url: 'redis://127.0.0.1' }, { nodes: ['redis://127.0.0.1', 'redis://[::1]:7000'] }])
    t.same(faults({ gateway, storage: { counters: { type: 'redis', ca_file: 'ca.pem', ...where } } }), [
      '/storage/counters/ca_file is for rediss:// alone'
    ])
  t.same(
    faults({ gateway, storage: { counters: { type: 'redis', ca_file: 'ca.pem', url: 'rediss://127.0.0.1' } } }),
    []
  )
  t.same(faults({ gateway: { ...gateway, listen_port: 9000 }, management: { listen_port: 9000 } }), [
    '/management/listen_port must differ from gateway.listen_port'
  ])
})

t.test('pins and domains of the settings have the rules of documents', async t => {
  const at = '/gateway/security'
  const hash = `sha256/${'A'.repeat(43)}=`
  const of = (security: object) => faults({ gateway: { secret: SECRET, security } })
  const domains = ['a.test', 'A.Test:8443', '*.a.test', '*', '*:443', '[::1]:443', '10.0.0.1']
  const malformed = ['', 'https://a.test', 'a.test/x', '*a.test', 'a.*.test', 'a b', '[::1', 'a:b']
  const documented = (domain: string, publicKeys: string[]) => {
    const upstream = { certificatePinning: { enabled: true, domainToPublicKeysMapping: [{ domain, publicKeys }] } }
    try {
      readApi(api('a', 'svc://echo', { upstream }), { source: 'x', matching: 'exact' })
      return true
    } catch {
      return false
    }
  }
  for (const domain of [...domains, ...malformed]) {
    const fits = domains.includes(domain)
    t.equal(documented(domain, ['id']), fits, domain)
    const told = (member: string) => {
      const path = `${at}/${member}/${domain.replaceAll('/', '~1')}`
      return fits ? [] : [`${path} must be for a host, a host with port, *.domain or *`]
    }
    t.same(of({ pinned_public_keys: { [domain]: 'id' } }), told('pinned_public_keys'))
    t.same(of({ certificates: { upstream: { [domain]: 'id' } } }), told('certificates/upstream'))
  }
  const told = [`${at}/pinned_public_keys/* must be ids or sha256/ and 44 characters of base64, parted by commas`]
  for (const [pins, fits] of [
    ['id', true],
    [hash, true],
    [` ${hash} , id`, true],
    [hash.slice(0, -1), false],
    [`${hash}=`, false],
    ['sha256/', false],
    [`id,${hash.replace('A', '-')}`, false],
    ['id,', false],
    [' ', false]
  ] as const) {
    t.equal(
      documented(
        '*',
        pins.split(',').map(pin => pin.trim())
      ),
      fits,
      pins
    )
    t.same(of({ pinned_public_keys: { '*': pins } }), fits ? [] : told, pins)
  }
})

t.test('encoding secrets are long where others can reach a listener, and earlier ones never empty', async t => {
  const at = '/gateway/security'
  const short = 'must have at least 16 characters where the listener is not bound to loopback'
  const security = {
    private_certificate_encoding_secret: 'fifteen letters',
    previous_private_certificate_encoding_secrets: ['', 'short', SECRET]
  }
  const empty = `${at}/previous_private_certificate_encoding_secrets/0 may not be empty`
  const all = [
    `${at}/private_certificate_encoding_secret ${short}`,
    empty,
    `${at}/previous_private_certificate_encoding_secrets/1 ${short}`
  ]
  const loopback = { secret: SECRET, security, listen_address: '127.0.0.1' }
  t.same(faults({ gateway: { ...loopback, listen_address: '' } }), all)
  t.same(faults({ gateway: loopback, management: { listen_address: '0.0.0.0' } }), all)
  t.same(faults({ gateway: loopback }), [empty])
  t.same(faults({ gateway: loopback, management: { listen_address: '0.0.0.0', enabled: false } }), [empty])
})

t.test('cool-downs of 0 stand for their defaults', async t => {
  const monitor = (check_cooldown_seconds: number, event_cooldown_seconds: number) => {
    const security = { certificate_expiry_monitor: { check_cooldown_seconds, event_cooldown_seconds } }
    return load({ file: JSON.stringify({ gateway: { secret: SECRET, security } }), env: {} }).gateway.security
      .certificate_expiry_monitor
  }
  t.match(monitor(0, 0), { check_cooldown_seconds: 3_600, event_cooldown_seconds: 86_400 })
  t.match(monitor(1, 2), { check_cooldown_seconds: 1, event_cooldown_seconds: 2 })
})

t.test('every option that users were promised exists', async t => {
  const { gateway, management, storage } = load({ file: null, env: {} })
  const promised = [
    'listen_address listen_port control_api_port secret app_path policies_path hash_keys hash_key_function',
    'enable_hashed_keys_listing rate_limiter sliding_log_counts_refused enable_rate_limit_smoothing trusted_proxies',
    'access_logs proxy_default_timeout graceful_shutdown_timeout_duration graceful_shutdown_delay_seconds',
    'rate_limit_response_headers rate_limit_ietf_headers min_token_length allow_master_keys http_server_options streaming'
  ]
  for (const name of promised.join(' ').split(' ')) t.ok(Object.hasOwn(gateway, name), `gateway.${name}`)
  for (const name of ['enabled', 'listen_address', 'listen_port', 'admin_secret', 'max_body_size', 'page_size'])
    t.ok(Object.hasOwn(management, name), `management.${name}`)
  t.match(storage, { documents: { type: 'sqlite', path: 'data/svc.db' }, counters: { type: 'memory' } })
  t.match(gateway.http_server_options, {
    max_request_body_size: 0,
    xff_depth: 0,
    read_timeout: 120,
    write_timeout: 120
  })
})

t.test('a file may name its schema for editors', async t => {
  t.same(faults({ $schema: 'docs/settings.schema.json', gateway: { secret: SECRET } }), [])
})

t.test('an input of a million faults is refused in an instant, by its first', async t => {
  t.equal(faults({ gateway: { secret: SECRET, trusted_proxies: new Array(1_000_000).fill(1) } }).length, 1)
})
