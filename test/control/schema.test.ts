import { readFileSync } from 'node:fs'
import t from 'tap'
import { jsonSchema, readme, readmeFile, schemaFile, settingsTable } from '../../control/schema.ts'

t.test('the schema for editors and the table of the README are those of the settings: npm run schema', async t => {
  t.equal(readFileSync(schemaFile, 'utf8'), jsonSchema())
  const text = readFileSync(readmeFile, 'utf8')
  t.equal(text, readme(text))
})

t.test('every option has a meaning', async t => {
  for (const row of settingsTable().split('\n').slice(2)) t.match(row, /^\| `[a-z0-9_.]+` \| \S.* \| \S.{5,} \|$/)
})
