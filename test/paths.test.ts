import fc from 'fast-check'
import t from 'tap'
import { Invalid } from '../config/validate.ts'
import {
  behindSegments,
  CompileBudget,
  comparePaths,
  inPrecedence,
  literalPath,
  normalPath,
  pathRule,
  resolveDots
} from '../gateway/paths.ts'

const forms = ['contains', 'prefix', 'exact'] as const

/** One letter a form: y where the rule matches. */
function answers(pattern: string, path: string, ignoreCase = false): string {
  return forms.map(matching => (pathRule(pattern, { matching, ignoreCase })(path) ? 'y' : 'n')).join('')
}

t.test('rules match as the facts say, for contains, prefix and exact', async t => {
  const table: [pattern: string, path: string, expected: string][] = [
    // Semantics §12.9, line by line.
    ['/json', '/api/v1/json', 'ynn'],
    ['/json', '/json/data', 'yyn'],
    ['/json', '/json', 'yyy'],
    ['/users/{id}', '/users/7/x', 'yyn'],
    ['^/users$', '/users/7', 'nnn'],
    // §3.8
    ['^/users$', '/users', 'yyy'],
    ['/users/{id}', '/users/7', 'yyy'],
    ['/users/{id}', '/users/', 'nnn'],
    ['/users/{id}', '/users', 'nnn'],
    ['/users/{id:[0-9]+}', '/users/77', 'yyy'],
    ['/users/{id:[0-9]+}', '/users/x', 'nnn'],
    ['/users/{id:[0-9]{2}}', '/users/77', 'yyy'],
    ['/users/{id:[0-9]{2}}', '/users/777', 'yyn'],
    ['/f/{path:.*}', '/f/a/b/c', 'yyy'],
    ['/a/*/b', '/a/x/b', 'yyy'],
    ['/a/*/b', '/a/x/y/b', 'nnn'],
    ['/a/*/*/b', '/a/x/y/b', 'yyy'],
    ['/a/*', '/a/x/y', 'yyy'],
    ['/a/*', '/a/', 'yyy'],
    ['/a/*', '/a', 'nnn'],
    ['/*', '/', 'yyy'],
    ['/files/{name}.json', '/files/x.json', 'yyy'],
    ['/files/{name}.json', '/files/.json', 'nnn'],
    ['/files/{name}.json', '/files/xjson', 'nnn'],
    ['/{a}-{b}', '/1-2', 'yyy'],
    ['/{a}-{b}', '/1-', 'nnn'],
    ['/v{n}/x', '/v2/x', 'yyy'],
    ["/Users('{id}')", "/Users('7')", 'yyy'],
    ['/a.b', '/aXb', 'nnn'],
    ['/a/', '/a', 'nnn'],
    ['/a', '/a/', 'yyn'],
    ['/', '/', 'yyy'],
    ['/', '/x', 'yyn'],
    ['/users/.*', '/users/7/x', 'yyy'],
    ['/(a|b)', '/b', 'yyy'],
    ['/a|/b', '/a/b', 'yyn'],
    ['json', '/json', 'yyy'],
    ['json', '/a/json', 'ynn'],
    ['/café', '/caf%C3%A9', 'yyy'],
    ['/caf%c3%a9', '/caf%C3%A9', 'yyy'],
    ['/%61dmin', '/admin', 'yyy'],
    ['/admin;v=1', '/admin', 'yyy'],
    ['/p/{lat};{lng}', '/p/50', 'yyy'],
    ['//a//b', '/a/b', 'yyy'],
    ['/A', '/a', 'nnn']
  ]
  for (const [pattern, path, expected] of table) t.equal(answers(pattern, path), expected, `${pattern} on ${path}`)
})

t.test('a rule that ignores case matches in any case, in every form', async t => {
  for (const pattern of ['/Users/{id}', '/users/{id:[A-Z]+}', '^/USERS/[a-z]+$', '/uSers/abc'])
    t.equal(answers(pattern, '/USERS/aBc', true), 'yyy', pattern)
})

function refused(run: () => unknown): boolean {
  try {
    run()
  } catch (cause) {
    return cause instanceof Invalid
  }
  return false
}

t.test('a pattern that does not compile is refused with a reason', async t => {
  const bad = [
    '/a{',
    '/a}',
    '/{}',
    '/{:x}',
    '/{a:}',
    '/{a:(}',
    '^(',
    '^[z-a]',
    '/a/../b',
    '/./a',
    '/{a:x)|(y}',
    '/{a:))|((}',
    '^/(?<=x)a',
    '^(a)\\1$'
  ]
  for (const pattern of [
    ...bad,
    `^${'x'.repeat(3000)}`,
    '^(((x{10}){10}){10}){10}',
    `/{a:${'(x{100}){10}'.repeat(20)}}`
  ])
    for (const matching of forms)
      t.ok(
        refused(() => pathRule(pattern, { matching, ignoreCase: false })),
        pattern.slice(0, 40)
      )
})

t.test('a hostile expression takes linear time', async t => {
  // Engines that go back and try again would not end within the life of this machine.
  const rule = pathRule('^/(a|aa|a?)+(x+x+)+y$', { matching: 'exact', ignoreCase: false })
  t.equal(rule(`/${'a'.repeat(8000)}${'x'.repeat(8000)}`), false)
})

t.test('hand-made matching of templates says the same as an expression', async () => {
  const segment = fc.constantFrom('a', 'b', '', 'ab', 'x.json', '.json', 'a-b')
  const part = fc.constantFrom('a', 'b', '{p}', '{p}.json', 'a{p}', 'x{p}n', '')
  fc.assert(
    fc.property(
      fc.array(part, { minLength: 1, maxLength: 4 }),
      fc.array(segment, { minLength: 1, maxLength: 4 }),
      (parts, segments) => {
        const pattern = `/${parts.filter((text, i) => text !== '' || i === parts.length - 1).join('/')}`
        const path = normalPath(`/${segments.join('/')}`)
        const source = pattern.replace(/\./g, '\\.').replace(/\{p\}/g, '[^/]+')
        return (
          pathRule(pattern, { matching: 'exact', ignoreCase: false })(path) === new RegExp(`^${source}$`).test(path) &&
          pathRule(pattern, { matching: 'prefix', ignoreCase: false })(path) === new RegExp(`^${source}`).test(path)
        )
      }
    )
  )
})

t.test('a literal path is told from a pattern', async t => {
  t.equal(literalPath('/a//b'), '/a/b')
  t.equal(literalPath('/a/{b}'), null)
  t.equal(literalPath('/a/*'), null)
  t.equal(literalPath('^/a'), null)
})

t.test(
  'precedence: more slashes, then longer, then by alphabet, without parameters; then fewer parameters',
  async t => {
    const sorted = [
      '/b/{x}/c',
      '/a/b/c',
      '/users/me',
      '/users/a{id}',
      '/users/b{id}',
      '/users/',
      '/users/{id}',
      '/x',
      '/{x}'
    ]
    t.same([...sorted].reverse().sort(comparePaths), ['/a/b/c', '/b/{x}/c', ...sorted.slice(2)])
    t.same(
      inPrecedence([...sorted].reverse(), path => path),
      [...sorted].sort(comparePaths)
    )
    t.same(['/{a:x/y/z}', '/a/b'].sort(comparePaths), ['/a/b', '/{a:x/y/z}'], 'slashes of an expression do not count')
  }
)

t.test('every spelling of a path has the normal form that its coarsest reader would give it', async t => {
  const attacks: [raw: string, normal: string, upstream?: string][] = [
    ['//admin', '/admin'],
    ['///admin', '/admin'],
    ['/admin//', '/admin/'],
    ['/./admin', '/admin', '/admin'],
    ['/admin/.', '/admin/', '/admin/'],
    ['/x/../admin', '/admin', '/admin'],
    ['/x/y/../../admin', '/admin', '/admin'],
    ['/../admin', '/admin', '/admin'],
    ['/../../../admin', '/admin', '/admin'],
    ['/x/..', '/', '/'],
    ['/x/../', '/', '/'],
    ['/..', '/', '/'],
    ['/.', '/', '/'],
    ['/x/%2e%2e/admin', '/admin', '/admin'],
    ['/x/%2E%2e/admin', '/admin', '/admin'],
    ['/x/.%2e/admin', '/admin', '/admin'],
    ['/x/%2e./admin', '/admin', '/admin'],
    ['/%2e/admin', '/admin', '/admin'],
    ['/%61dmin', '/admin'],
    ['/%61%64%6D%69%6e', '/admin'],
    ['/ADMIN', '/ADMIN'],
    ['/x%2fadmin', '/x/admin'],
    ['/x%2Fadmin', '/x/admin'],
    ['/%2fadmin', '/admin'],
    ['/x%2f..%2fadmin', '/admin', '/admin'],
    ['/x%2f%2e%2e%2fadmin', '/admin', '/admin'],
    ['/x/..%2fadmin', '/admin', '/admin'],
    ['/x\\admin', '/x/admin'],
    ['/x\\..\\admin', '/admin', '/admin'],
    ['/x/..\\admin', '/admin', '/admin'],
    ['/x%5cadmin', '/x/admin'],
    ['/x%5C..%5Cadmin', '/admin', '/admin'],
    ['/admin;x', '/admin'],
    ['/admin;x=1;y=2', '/admin'],
    ['/admin%3bx', '/admin'],
    ['/;x/admin', '/admin'],
    ['/;/admin', '/admin'],
    ['/x/..;/admin', '/admin', '/admin'],
    ['/x/..;a=b/admin', '/admin', '/admin'],
    ['/x/%2e%2e;/admin', '/admin', '/admin'],
    ['/x/..%3b/admin', '/admin', '/admin'],
    ['/.;x/admin', '/admin', '/admin'],
    ['/x/;y/../admin', '/admin', '/admin'],
    ['/x//../admin', '/admin', '/admin'],
    ['/a/b//../../admin', '/admin', '/admin'],
    ['/admin%28%29', '/admin()'],
    ['/admin%7e', '/admin~'],
    ['/%2561dmin', '/%2561dmin'],
    ['/a%252fb', '/a%252fb'],
    ['/100%', '/100%25'],
    ['/%zz', '/%25zz'],
    ['/%2', '/%252'],
    ['/%2%41', '/%252A'],
    ['/a%00b', '/a%00b'],
    ['/a%0ab', '/a%0Ab'],
    ['/a%3fb', '/a%3Fb'],
    ['/a%23b', '/a%23b'],
    ['/a%20b', '/a%20b'],
    ['/caf%c3%a9', '/caf%C3%A9'],
    ['/caf\u00e9', '/caf%C3%A9'],
    ['/...', '/...'],
    ['/..a', '/..a'],
    ['/a..', '/a..'],
    ['/.well-known/x', '/.well-known/x'],
    ['/', '/'],
    ['//', '/'],
    ['*', '*']
  ]
  for (const [raw, normal, upstream = raw] of attacks) {
    t.equal(normalPath(raw), normal, raw)
    t.equal(resolveDots(raw), upstream, `${raw} upstream`)
  }
  for (const path of ['/orders/items/7', '/a-b_c.d~e/', "/x!$&'()*+,=:@"]) t.equal(normalPath(path), path)
})

t.test('what goes upstream holds no dot segment and reads as the rules read it', async () => {
  const piece = fc.constantFrom(
    '/',
    '//',
    'a',
    'b',
    '.',
    '..',
    '%2e',
    '%2F',
    '%5c',
    '\\',
    ';',
    '%3B',
    '%',
    '%25',
    '%2',
    '%41',
    'é',
    '...'
  )
  fc.assert(
    fc.property(fc.array(piece, { maxLength: 14 }), pieces => {
      const raw = `/${pieces.join('')}`
      const sent = resolveDots(raw)
      const normal = normalPath(raw)
      if (normalPath(sent) !== normal || normalPath(normal) !== normal || resolveDots(sent) !== sent) return false
      const read = sent
        .replace(/%2e/gi, '.')
        .replace(/%2f|%5c|\\/gi, '/')
        .replace(/%3b/gi, ';')
      return sent.startsWith('/') && !normal.includes('//') && !/\/\.\.?(?:[/;]|$)/.test(read)
    }),
    { numRuns: 5000 }
  )
})

t.test('the listen path is cut off in whatever spelling it came, the rest stays as written', async t => {
  const table: [raw: string, count: number, rest: string][] = [
    ['/app/x//y', 1, '/x//y'],
    ['/app', 1, '/'],
    ['/app/', 1, '/'],
    ['/app//', 1, '//'],
    ['//app///x', 1, '///x'],
    ['/%61pp/%41', 1, '/%41'],
    ['/app%2Fx/y', 1, '/x/y'],
    ['/app\\x', 1, '/x'],
    ['/app;v=1/x', 1, '/x'],
    ['/;z/app/x', 1, '/x'],
    ['/a/b/c', 2, '/c'],
    ['/a/b', 0, '/a/b']
  ]
  for (const [raw, count, rest] of table) t.equal(behindSegments(raw, count), rest, raw)
})

t.test('what is cut off and what remains are the normal form together', async () => {
  const piece = fc.constantFrom('/', 'a', 'b', '%2F', '\\', ';', '%41', '//')
  fc.assert(
    fc.property(fc.array(piece, { maxLength: 12 }), pieces => {
      const raw = resolveDots(`/a/${pieces.join('')}`)
      const normal = normalPath(raw)
      return normal === '/a' || normalPath(behindSegments(raw, 1)) === normal.slice(2)
    })
  )
})

t.test('a budget ends compiling, whatever was compiled before', async t => {
  const exact = { matching: 'exact', ignoreCase: false } as const
  const pattern = (i: number) => `^/[a-z]{1,100}x${i}$`
  const count = () => {
    const budget = new CompileBudget(2000)
    for (let i = 0; i < 1000; i++) if (refused(() => pathRule(pattern(i), exact, budget))) return i
    return Number.POSITIVE_INFINITY
  }
  const first = count()
  t.ok(first > 2 && first < 20, String(first))
  t.equal(count(), first)
  const budget = new CompileBudget(2000)
  for (let i = 0; i < 100; i++) pathRule(pattern(0), exact, budget)
  for (let i = 0; i < 10_000; i++) pathRule(`/p/{id}/${i}`, exact, budget)
  t.ok(refused(() => pathRule(`^${'(x{900})'.repeat(2)}$`, exact, budget)))
  t.ok(budget.isSpent)
  t.notOk(
    refused(() => pathRule(pattern(0), exact, budget)),
    'what was taken stays'
  )
  t.notOk(refused(() => pathRule('/literal', exact, budget)))
  t.ok(refused(() => pathRule('^/new$', exact, budget)))
})
