import { basename, extname, join } from 'node:path'
import type { Key } from '../../config/shape/key.ts'
import { Policy } from '../../config/shape/policy.ts'
import { Invalid } from '../../config/validate.ts'
import { parseJson, parseYaml } from '../../config/yaml.ts'
import type { Changes } from '../changes/changes.ts'
import { disk, type Files } from '../documents/files.ts'
import type { Matching } from '../paths.ts'
import type { Store } from '../store/store.ts'
import { inlinePolicies, isPolicyId, partitionFault, policyIdText, readPolicy } from './check.ts'
import { isObject, type Named } from './merge.ts'

export interface PoliciesTools {
  readonly store: Pick<Store, 'get' | 'list'>
  readonly changes: Pick<Changes, 'listen'>
  readonly matching: Matching
  /** `gateway.policies_path`: a folder or a file; '': none. */
  readonly path: string
}

/** What a folder or file of policies holds, or why it cannot be used. */
export interface PolicyFiles {
  /** Each names its file. Not empty: `take` must not be called. */
  readonly faults: readonly string[]
  /** Puts these policies in the place of the earlier ones, as one step. */
  take(): void
}

interface Filed {
  readonly file: string
  readonly policy: Policy
}

/** Stored policies remembered at most; beyond, all are forgotten and read again. */
const REMEMBERED = 10_000

/** All policies: those of the folder, which only reading it again changes, and those of the store. */
export class Policies {
  /** Raised by every change, so that whoever applied policies knows that it must do so again. */
  epoch = 0
  readonly #store: PoliciesTools['store']
  readonly #path: string
  readonly #matching: Matching
  readonly #stored = new Map<string, Policy | null>()
  #filed: ReadonlyMap<string, Filed> = new Map()
  readonly #stop: () => void

  constructor({ store, changes, matching, path }: PoliciesTools) {
    this.#store = store
    this.#matching = matching
    this.#path = path
    this.#stop = changes.listen(all => {
      if (all === null) {
        this.#stored.clear()
        this.epoch++
        return
      }
      for (const { kind, id } of all) {
        if (kind !== 'policy') continue
        this.#stored.delete(id)
        this.epoch++
      }
    })
  }

  /** @throws Unavailable (or rejects with it) */
  get(id: string): Policy | null | Promise<Policy | null> {
    const known = this.#filed.get(id)?.policy ?? this.#stored.get(id)
    if (known !== undefined) return known
    const { epoch } = this
    const remember = (policy: Policy | null): Policy | null => {
      if (epoch !== this.epoch) return policy
      if (this.#stored.size >= REMEMBERED) this.#stored.clear()
      this.#stored.set(id, policy)
      return policy
    }
    const document = this.#store.get<Policy>('policy', id)
    if (document instanceof Promise) return document.then(late => remember(late?.body ?? null))
    return remember(document?.body ?? null)
  }

  /** The policies of a key in its order: those it carries itself, else those that it names (semantics §4.3). */
  of(key: Key, org: string): Named[] | Promise<Named[]> {
    const inline = inlinePolicies(key.meta_data, org, this.#matching)
    if (inline !== null) return inline
    const named = (key.apply_policies ?? []).map(id => ({ id, policy: this.get(id) }))
    if (named.every((one): one is Named => !(one.policy instanceof Promise))) return named
    return Promise.all(named.map(async ({ id, policy }) => ({ id, policy: await policy })))
  }

  /** All of them: the folder's first, then the store's, oldest first. */
  async list(): Promise<Policy[]> {
    const policies = [...this.filed()]
    for (let page = 1; ; page++) {
      const { documents } = await this.#store.list<Policy>('policy', { page, size: 1000 })
      policies.push(...documents.map(({ body }) => body))
      if (documents.length < 1000) return policies
    }
  }

  /** Those of the folder, in the order of their files. */
  filed(): readonly Policy[] {
    return [...this.#filed.values()].map(({ policy }) => policy)
  }

  /** The file that a policy comes from, which makes it read-only; null: it may be written. */
  fileOf(id: string): string | null {
    return this.#filed.get(id)?.file ?? null
  }

  /** Reads the folder again and checks all of it; nothing counts before `take`. */
  async read(files: Files = disk): Promise<PolicyFiles> {
    const faults: string[] = []
    const filed = new Map<string, Filed>()
    for (const { file, given, id: name } of await this.#given(files, faults)) {
      try {
        const policy = readPolicy(given, this.#matching)
        const id = policy.id || policy._id || name
        if (!isPolicyId(id)) throw new Invalid([{ path: '/id', message: `${id}: ${policyIdText}` }])
        const partitions = partitionFault(id, policy)
        if (partitions !== null) throw new Invalid([{ path: '/partitions', message: partitions }])
        const twin = filed.get(id)
        if (twin !== undefined) faults.push(`${file}: policy ${id} stands in ${twin.file} too`)
        else if (!files.areAccepted && (await this.#store.get('policy', id)) !== null)
          faults.push(`${file}: policy ${id} stands in the store too`)
        else
          filed.set(id, { file, policy: { ...policy, id, _id: policy._id || id, org_id: policy.org_id || 'default' } })
      } catch (cause) {
        if (!(cause instanceof Invalid)) throw cause
        faults.push(
          ...cause.faults.map(
            ({ path, message }) => `${file}: ${name === '' ? '' : `policy ${name}: `}${path} ${message}`
          )
        )
      }
    }
    return {
      faults,
      take: () => {
        this.#filed = filed
        this.epoch++
      }
    }
  }

  close(): void {
    this.#stop()
  }

  async #given(files: Files, faults: string[]): Promise<{ file: string; id: string; given: unknown }[]> {
    if (this.#path === '') return []
    try {
      const names = (await files.names(this.#path))?.filter(isPolicyFile).sort() ?? ['']
      const all = await Promise.all(names.map(name => policiesIn(files, join(this.#path, name), faults)))
      return all.flat()
    } catch (cause) {
      faults.push(`${this.#path}: ${(cause as Error).message}`)
      return []
    }
  }
}

function isPolicyFile(name: string): boolean {
  return ['.json', '.yaml', '.yml'].includes(extname(name)) && !name.startsWith('.')
}

/** A file holds one policy (its name is the id unless the policy says one), a list, or a map from ids to policies. */
async function policiesIn(
  files: Files,
  file: string,
  faults: string[]
): Promise<{ file: string; id: string; given: unknown }[]> {
  let content: unknown
  try {
    const { text } = await files.read(file)
    content = extname(file) === '.json' ? parseJson(text) : parseYaml(text)
  } catch (cause) {
    faults.push(`${file}: ${(cause as Error).message}`)
    return []
  }
  if (Array.isArray(content)) return content.map(given => ({ file, id: '', given }))
  if (!isObject(content) || !isMap(content)) return [{ file, id: basename(file, extname(file)), given: content }]
  return Object.entries(content).map(([id, given]) => {
    if (isObject(given) && typeof given.id === 'string' && given.id !== '' && given.id !== id)
      faults.push(`${file}: policy ${id} calls itself ${given.id}`)
    return { file, id, given: isObject(given) ? { ...given, id } : given }
  })
}

/** Every member is an object, and some member's name is none of a policy's. */
function isMap(content: Record<string, unknown>): boolean {
  return (
    Object.values(content).every(isObject) && Object.keys(content).some(name => !Object.hasOwn(Policy.properties, name))
  )
}
