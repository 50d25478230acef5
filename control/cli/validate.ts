import { KeyGiven } from '../../config/shape/key.ts'
import { Policy } from '../../config/shape/policy.ts'
import { compile, Invalid } from '../../config/validate.ts'
import type { Api } from '../../gateway/api.ts'
import { readApi } from '../../gateway/documents/readApi.ts'
import { isPolicyId, partitionFault, policyIdText, ruleFaults } from '../../gateway/keys/check.ts'
import type { Given, Json } from './documents.ts'
import { openness } from './openness.ts'

/** Lines of text, each with its file and document. */
interface Said {
  /** What keeps documents from being used. */
  readonly faults: readonly string[]
  /** What their writers should know: who gets in without a credential. */
  readonly notes: readonly string[]
}

/** What can be said about documents without a gateway: each by itself, and the listen paths of all together. */
export function validate(given: readonly Given[]): Said {
  const faults: string[] = []
  const notes: string[] = []
  const paths = new Map<string, string>()
  const names = new Map<string, string>()
  for (const one of given) {
    const tell = (path: string, message: string) =>
      void faults.push(`${one.file}: ${one.kind} ${one.id}: ${path} ${message}`)
    try {
      const api = check(one)
      if (one.kind === 'policy' && typeof one.body.name === 'string' && one.body.name !== '') {
        const { name } = one.body
        if (names.has(name)) tell('/name', `is that of policy ${names.get(name)} too`)
        names.set(name, one.id)
      }
      if (api === null || !api.active || api.internal) continue
      notes.push(...openness(api).map(line => `${one.file}: ${one.kind} ${one.id}: ${line}`))
      const place = `${api.domain}${api.listenPath}/`
      const holder = paths.get(place)
      if (holder !== undefined) tell('', `has the listen path ${place} of API ${holder}`)
      paths.set(place, api.id)
    } catch (cause) {
      if (!(cause instanceof Invalid)) throw cause
      for (const { path, message } of cause.faults) tell(path, message)
    }
  }
  return { faults, notes }
}

const policyShape = compile(Policy)
const keyShape = compile(KeyGiven)
const matching = { matching: 'exact', ignoreCase: false } as const

/** @throws Invalid */
function check({ kind, id, body, file }: Given): Api | null {
  if (kind === 'api') return readApi(body, { source: file, matching: 'exact' })
  if (kind === 'asset') return null
  const { id: _id, ...rest } = structuredCloned(body)
  const read = kind === 'policy' ? policyShape({ id, ...rest }) : keyShape(rest)
  const faults = ruleFaults(read, matching)
  if (kind === 'policy') {
    if (!isPolicyId(id)) faults.push({ path: '/id', message: policyIdText })
    const partitions = partitionFault(id, read as Policy)
    if (partitions !== null) faults.push({ path: '/partitions', message: partitions })
  }
  if (faults.length > 0) throw new Invalid(faults)
  return null
}

/** Checking fills in defaults, which are no part of the file. */
function structuredCloned(body: Json): Json {
  return JSON.parse(JSON.stringify(body))
}
