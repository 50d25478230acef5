import { readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { Settings } from '../config/settings.ts'

/** `npm run schema`: writes what is made of the settings' schema, the JSON Schema for editors and the table of the README. */

const root = join(import.meta.dirname, '..')
const BEGIN = '<!-- settings: written by npm run schema -->'
const END = '<!-- end of settings -->'

export const schemaFile = join(root, 'docs/settings.schema.json')
export const readmeFile = join(root, 'README.md')

interface Member {
  readonly type?: string
  readonly description?: string
  readonly default?: unknown
  readonly enum?: readonly unknown[]
  readonly unit?: string
  readonly properties?: Record<string, Member>
}

export function jsonSchema(): string {
  const schema = {
    $schema: 'https://json-schema.org/draft/2020-12/schema',
    title: 'Settings of svc-gateway',
    ...Settings
  }
  // What has a default need not be written; what else is needed depends on other members, and `load` tells it.
  return `${JSON.stringify(schema, (name, value) => (name === 'required' ? undefined : value), 2)}\n`
}

/** One row an option, in the order of the schema. */
export function settingsTable(): string {
  const rows = Object.entries((Settings as Member).properties!)
    .filter(([, section]) => section.properties !== undefined)
    .flatMap(([name, section]) => rowsOf(name, section))
  return ['| Option | Default | Meaning |', '|---|---|---|', ...rows].join('\n')
}

function rowsOf(path: string, member: Member): string[] {
  if (member.properties !== undefined)
    return Object.entries(member.properties).flatMap(([name, inner]) => rowsOf(`${path}.${name}`, inner))
  const { description = '', unit, enum: values } = member
  const initial = member.default === '' ? 'none' : `\`${JSON.stringify(member.default).replace(/^"(.*)"$/, '$1')}\``
  const unnamed = (values ?? []).filter(value => !description.includes(`\`${value}\``))
  const oneOf = unnamed.length > 0 ? `: ${unnamed.map(value => `\`${value}\``).join(', ')}` : ''
  return [`| \`${path}\` | ${initial}${unit === undefined ? '' : ` ${unit}`} | ${description}${oneOf} |`]
}

/** The README with the table as it is now. @throws Error when the markers are missing */
export function readme(text: string): string {
  const [begin, end] = [text.indexOf(BEGIN), text.indexOf(END)]
  if (begin < 0 || end < begin) throw new Error(`README.md has no ${BEGIN} … ${END}`)
  return `${text.slice(0, begin + BEGIN.length)}\n${settingsTable()}\n${text.slice(end)}`
}

if (import.meta.main) {
  writeFileSync(schemaFile, jsonSchema())
  writeFileSync(readmeFile, readme(readFileSync(readmeFile, 'utf8')))
}
