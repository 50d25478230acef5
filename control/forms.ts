import { Answer } from './endpoint.ts'
import { writeYaml } from './yaml.ts'

/** Documents as JSON or YAML, in the form that a client asks for. */

/** Media types of bodies and answers. */
export const documentTypes = ['application/json', 'application/yaml', 'application/x-yaml', 'text/yaml'] as const
export const givenTypes = ['application/json', 'application/yaml'] as const

/** A document in the form that the client asks for; JSON where it does not care. */
export async function inForm(document: unknown, accept: string, headers: Record<string, string> = {}): Promise<Answer> {
  if (!asksForYaml(accept)) return new Answer(200, document, headers)
  return new Answer(200, await writeYaml(document), { 'Content-Type': 'application/yaml', ...headers })
}

/** A document as a file to be kept. @param name without extension; only letters, digits, - . _ and ~ */
export async function asFile(document: unknown, accept: string, name: string): Promise<Answer> {
  const file = (extension: string, type: string) => ({
    'Content-Type': type,
    'Content-Disposition': `attachment; filename="${name}.${extension}"`
  })
  if (asksForYaml(accept)) return new Answer(200, await writeYaml(document), file('yaml', 'application/yaml'))
  return new Answer(200, JSON.stringify(document), file('json', 'application/octet-stream'))
}

const YAML = new Set(['application/yaml', 'application/x-yaml', 'text/yaml', 'text/x-yaml', 'text/vnd.yaml'])
const ANYTHING = new Set(['application/json', 'application/*', '*/*'])

/** Whether the range of `Accept` with the highest weight (RFC 9110 §12.5.1) that names a form we have is YAML. */
function asksForYaml(accept: string): boolean {
  let best = { yaml: false, weight: 0 }
  for (const part of accept.split(',')) {
    const [range, ...parameters] = part.split(';').map(text => text.trim().toLowerCase())
    const yaml = YAML.has(range!)
    if (!yaml && !ANYTHING.has(range!)) continue
    const given = Number(parameters.find(text => text.startsWith('q='))?.slice(2) ?? 1)
    if (given > best.weight) best = { yaml, weight: given }
  }
  return best.yaml
}
