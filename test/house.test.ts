import { globSync, readFileSync } from 'node:fs'
import { dirname, join, relative } from 'node:path'
import t from 'tap'

const root = join(import.meta.dirname, '..')

/**
 * Floors from the lowest up: a file stands on the last floor that has a name beginning it, and imports its own floor or lower
 * ones. Type imports count as well: who needs a type from above stands on the wrong floor.
 */
const floors: readonly (readonly string[])[] = [
  ['config/'],
  ['streams/'],
  [
    'gateway/paths.ts',
    'gateway/addresses.ts',
    'gateway/limits/',
    'gateway/redis/',
    'gateway/store/',
    'gateway/refusals.ts'
  ],
  ['gateway/changes/', 'gateway/counters/', 'gateway/jwks/'],
  [
    'gateway/api.ts',
    'gateway/certificates/',
    'gateway/documents/',
    'gateway/events.ts',
    'gateway/keys/',
    'gateway/passwords/',
    'gateway/vault.ts'
  ],
  ['gateway/apis.ts', 'gateway/listenPaths.ts', 'gateway/exchange.ts'],
  ['gateway/answer.ts', 'gateway/framing.ts', 'gateway/pipeline.ts', 'gateway/values.ts', 'gateway/variables.ts'],
  ['gateway/proxy/'],
  ['gateway/authentication/', 'gateway/steps/'],
  ['gateway/compile.ts', 'gateway/routes.ts', 'gateway/server.ts', 'gateway/'],
  ['control/'],
  ['gateway/assemble.ts'],
  ['gateway/main.ts', 'bench/', 'test/']
]
/** Who may speak HTTP itself; types do not count here. */
const speakers = [
  'gateway/server.ts',
  'gateway/threads/',
  'gateway/tls/',
  'gateway/exchange.ts',
  'gateway/proxy/',
  'gateway/tls/',
  'control/server.ts',
  'bench/',
  'test/'
]

interface Arrow {
  readonly from: string
  readonly to: string
  readonly typeOnly: boolean
}

const files = globSync('{config,streams,gateway,control,bench,test}/**/*.ts', { cwd: root }).sort()
const arrows: Arrow[] = files.flatMap(from => {
  const text = readFileSync(join(root, from), 'utf8')
  return [...text.matchAll(/^(?:import|export)\s+(type\s)?[^'"]*?\bfrom '([^']+)'|^import '([^']+)'/gm)].map(found => {
    const name = (found[2] ?? found[3])!
    const to = name.startsWith('.') ? relative(root, join(root, dirname(from), name)) : name
    return { from, to, typeOnly: found[1] !== undefined }
  })
})

/** The number of its floor: the longest name that begins it decides; -1: it is a package. */
function floor(file: string): number {
  let best = { floor: -1, length: 0 }
  for (const [number, names] of floors.entries())
    for (const name of names)
      if (file.startsWith(name) && name.length > best.length) best = { floor: number, length: name.length }
  return best.floor
}

t.test('imports point down', async t => {
  t.ok(arrows.length > 100)
  for (const { from, to } of arrows) if (floor(to) > floor(from)) t.fail(`${from} imports ${to} from above`)
})

t.test('no file imports itself round a circle', async t => {
  const below = Map.groupBy(
    arrows.filter(({ to }) => to.endsWith('.ts')),
    ({ from }) => from
  )
  const done = new Set<string>()
  const visit = (file: string, path: readonly string[]): void => {
    if (path.includes(file)) return void t.fail([...path.slice(path.indexOf(file)), file].join(' → '))
    if (done.has(file)) return
    for (const { to } of below.get(file) ?? []) visit(to, [...path, file])
    done.add(file)
  }
  for (const file of files) visit(file, [])
})

t.test('HTTP is spoken in few places', async t => {
  for (const { from, to, typeOnly } of arrows)
    if (/^node:(?:http2?|https)$/.test(to) && !typeOnly && !speakers.some(name => from.startsWith(name)))
      t.fail(`${from} imports ${to}`)
})

t.test('each top folder tells what lives in it, in at most 40 lines', async t => {
  for (const folder of new Set(files.map(file => file.split('/')[0]!))) {
    const lines = readFileSync(join(root, folder, 'README.md'), 'utf8')
      // What a script writes is looked up, not read through.
      .replace(/\n<!-- coverage[\s\S]*<!-- end of coverage -->/, '')
      .trimEnd()
      .split('\n')
    t.ok(lines.length <= 40, `${folder}/README.md has ${lines.length} lines`)
  }
})
