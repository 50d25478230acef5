import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import t from 'tap'
import { endpoints } from '../../control/endpoints/index.ts'
import { BEGIN, END, readmeFile, shownBy, specified } from '../coverage.ts'

t.test('every endpoint of the specification is in the table, with a test that exists', async t => {
  const known = new Set(endpoints.map(({ method, path }) => `${method} ${path}`))
  const text = readFileSync(readmeFile, 'utf8')
  const block = text.slice(text.indexOf(BEGIN), text.indexOf(END))
  for (const endpoint of specified) {
    t.ok(known.has(endpoint), endpoint)
    const [, file, test] =
      new RegExp(`\\| \`${endpoint.replaceAll(/[{}/]/g, '\\$&')}\` \\| \`([^\`]+)\`: (.+) \\|`).exec(block) ?? []
    if (file === undefined) t.fail(`${endpoint} has no test: npm run coverage writes the table`)
    else t.ok(readFileSync(join(import.meta.dirname, '../..', file), 'utf8').includes(test!), `${file} holds "${test}"`)
  }
})

t.test('of several tests the one about the fewest endpoints is named', async t => {
  const touch = (test: string, endpoint: string) => ({ file: 'f', test, endpoint })
  const touches = [touch('wide', 'A'), touch('wide', 'B'), touch('narrow', 'A')]
  t.equal(shownBy('A', touches)?.test, 'narrow')
  t.equal(shownBy('C', touches), null)
})
