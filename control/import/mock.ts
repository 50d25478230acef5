import type { Members } from './members.ts'

/** Responses by code, in upper case: `200`, `2XX`, `DEFAULT`. */
export type Examples = ReadonlyMap<string, Content>

interface Content {
  /** It has no content, so it is answered without a body. */
  readonly isEmpty: boolean
  /** Media types, as written, that have an example or a schema. */
  readonly types: readonly string[]
}

/** What the gateway answers with where nothing else is said. */
const USUAL_CODE = 200
const USUAL_TYPE = 'application/json'
/** Characters that the extension takes, and a little room. */
const LONGEST_TYPE = 200

export function hasExamples(examples: Examples): boolean {
  return [...examples.values()].some(({ types }) => types.length > 0)
}

/** `fromOASExamples` with the code and content type that the description has; what is given stays where it fits. */
export function answering(examples: Examples, given: Readonly<Members>): Members {
  const { code: _, contentType: __, ...rest } = given
  const own = typeof given.code === 'number' ? given.code : undefined
  const code = answers(contentOf(examples, own ?? USUAL_CODE)) ? own : codeOf(examples)
  const types = contentOf(examples, code ?? USUAL_CODE)?.types ?? []
  const ownType = typeof given.contentType === 'string' ? given.contentType : undefined
  const contentType = fits(types, ownType || USUAL_TYPE) ? ownType : typeOf(types)
  return {
    ...rest,
    ...(code === undefined ? {} : { code }),
    ...(contentType === undefined ? {} : { contentType })
  }
}

/** As the gateway looks for it: the code's own response, that of its hundred, that of all others. */
function contentOf(examples: Examples, code: number): Content | undefined {
  return examples.get(String(code)) ?? examples.get(`${String(code)[0]}XX`) ?? examples.get('DEFAULT')
}

function answers(content: Content | undefined): boolean {
  return content !== undefined && (content.isEmpty || content.types.length > 0)
}

/** The lowest code that can be answered; undefined: the usual one, or none. */
function codeOf(examples: Examples): number | undefined {
  if (answers(contentOf(examples, USUAL_CODE))) return undefined
  const codes = [...examples.keys()]
    .filter(code => /^[2-5](?:\d\d|XX)$/.test(code) && answers(examples.get(code)))
    .map(code => Number(code.replace('XX', '00')))
  return codes.sort((a, b) => a - b).find(code => answers(contentOf(examples, code)))
}

function fits(types: readonly string[], wanted: string): boolean {
  if (types.length === 0) return true
  const own = bare(wanted)
  return [own, own.replace(/\/.*/, '/*'), '*/*'].some(name => types.some(type => bare(type) === name))
}

/** The first of them, where it is not the usual one. A range stands for many types; an answer has one. */
function typeOf(types: readonly string[]): string | undefined {
  const first = types.find(type => type.length <= LONGEST_TYPE)
  if (first === undefined || fits(types, USUAL_TYPE)) return undefined
  return first.replace(/^text\/\*/, 'text/plain').replace(/\/\*/, '/octet-stream')
}

function bare(type: string): string {
  return type.split(';', 1)[0]!.trim().toLowerCase()
}
