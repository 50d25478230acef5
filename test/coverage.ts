import { spawnSync } from 'node:child_process'
import { globSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join, relative } from 'node:path'
import { endpoints } from '../control/endpoints/index.ts'

/**
 * `npm run coverage`: runs the tests that speak to the interface, notes which endpoint each of them had a success from, and
 * writes the table of `control/README.md`: every endpoint of the interface specification with the test that shows it.
 */

/** The specification's endpoints, part by part. */
export const specified: readonly string[] = [
  'PUT /api/assets/{assetID}',
  'POST /api/portal/policies',
  'PUT /api/portal/policies/{id}',
  'GET /api/portal/policies/{id}',
  'GET /api/keys/detailed',
  'GET /api/apis/{apiID}/keys/{keyID}',
  'PUT /api/apis/{apiID}/keys/{keyID}',
  'POST /api/apis/keys/basic/{username}',
  'POST /svc/keys/create',
  'GET /svc/keys/{keyID}',
  'GET /api/users',
  'POST /api/users/search',
  'POST /admin/users',
  'PUT /admin/users/{userId}',
  'GET /api/certs/details',
  'GET /api/certs/{certId}',
  'GET /api/certs',
  'GET /certs/{certificateId}/apis',
  'GET /api/apis/oas/{apiID}/urls',
  'DELETE /api/cache/jwks/{apiID}',
  'POST /api/apis/streams',
  'PUT /portal-api/organisations/{organisation_id}'
]

export const BEGIN = '<!-- coverage: written by npm run coverage -->'
export const END = '<!-- end of coverage -->'
const root = join(import.meta.dirname, '..')
export const readmeFile = join(root, 'control/README.md')

/** One success that a test had, as `test/helpers/gateway.ts` notes it. */
export interface Touch {
  readonly file: string
  readonly test: string
  /** `PUT /api/assets/{assetID}` */
  readonly endpoint: string
}

/**
 * The test that shows an endpoint: in the file that is most about it (by the share of its calls), the one that had most
 * successes from it, the earlier of equals.
 */
export function shownBy(endpoint: string, touches: readonly Touch[]): Touch | null {
  const fitting = touches.filter(touch => touch.endpoint === endpoint)
  const share = (file: string) =>
    fitting.filter(touch => touch.file === file).length / touches.filter(touch => touch.file === file).length
  const files = [...new Set(fitting.map(({ file }) => file))].sort((a, b) => share(b) - share(a))
  const inFile = fitting.filter(({ file }) => file === files[0])
  const tests = [...new Set(inFile.map(({ test }) => test))]
  const count = (name: string) => inFile.filter(({ test }) => test === name).length
  const [best] = tests.sort((a, b) => count(b) - count(a))
  return inFile.find(({ test }) => test === best) ?? null
}

function table(touches: readonly Touch[]): string {
  const rows = specified.map(endpoint => {
    const touch = shownBy(endpoint, touches)
    return `| \`${endpoint}\` | ${touch === null ? '**none**' : `\`${touch.file}\`: ${touch.test}`} |`
  })
  return ['| Endpoint of the specification | Shown by |', '|---|---|', ...rows].join('\n')
}

function run(): readonly Touch[] {
  const folder = mkdtempSync(join(tmpdir(), 'svc-coverage-'))
  const file = join(folder, 'touches')
  writeFileSync(file, '')
  for (const test of globSync('test/{control,keys,apis}/**/*.test.ts', { cwd: root }).sort()) {
    // These walk over everything, or look at the table itself.
    if (/\/(?:badInput|doorsWalk|coverage)\.test\.ts$/.test(test)) continue
    console.log(test)
    const { status } = spawnSync(process.execPath, ['--disable-warning=ExperimentalWarning', test], {
      cwd: root,
      env: { ...process.env, SVC_TOUCHES: file },
      stdio: 'ignore'
    })
    if (status !== 0) throw new Error(`${test} fails: the table stays as it is`)
  }
  const touches = readFileSync(file, 'utf8')
    .trim()
    .split('\n')
    .filter(line => line !== '')
  rmSync(folder, { recursive: true })
  return touches.map(line => {
    const touch = JSON.parse(line) as Touch
    return { ...touch, file: relative(root, touch.file) }
  })
}

if (import.meta.main) {
  const known = new Set(endpoints.map(({ method, path }) => `${method} ${path}`))
  const unknown = specified.filter(endpoint => !known.has(endpoint))
  if (unknown.length > 0) throw new Error(`not in the endpoint table: ${unknown.join(', ')}`)
  const text = readFileSync(readmeFile, 'utf8')
  const [begin, end] = [text.indexOf(BEGIN), text.indexOf(END)]
  if (begin < 0 || end < begin) throw new Error(`control/README.md has no ${BEGIN} … ${END}`)
  writeFileSync(readmeFile, `${text.slice(0, begin + BEGIN.length)}\n${table(run())}\n${text.slice(end)}`)
}
