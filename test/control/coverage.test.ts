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

t.test('named is the test with most calls, in the file that is most about the endpoint', async t => {
  const touch = (file: string, test: string, endpoint: string) => ({ file, test, endpoint })
  const touches = [
    touch('other', 'uses it', 'A'),
    touch('other', 'uses it', 'B'),
    touch('other', 'is about others', 'B'),
    touch('own', 'begins', 'A'),
    touch('own', 'is about it', 'A'),
    touch('own', 'is about it', 'A'),
    touch('own', 'is about it', 'B')
  ]
  t.equal(shownBy('A', touches)?.test, 'is about it')
  t.equal(shownBy('C', touches), null)
})
