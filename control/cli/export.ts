import { createHash } from 'node:crypto'
import { mkdirSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { toYaml } from '../../config/yaml.ts'
import { EXTENSION } from '../../gateway/api.ts'
import { looksLikeToken } from '../../gateway/keys/token.ts'
import type { Client } from './client.ts'
import type { DocumentKind, Json } from './documents.ts'
import { normal } from './normal.ts'

/** How many documents of each kind were written. */
export interface Exported extends Record<DocumentKind, number> {
  /** Users with a password: without it they would be keys that open with their name alone. */
  readonly left: number
}

/**
 * Writes everything that `apply` can bring back, one file a document: APIs, policies, assets, and keys that have an id of
 * their own (no secrets). @returns how many of each. @throws CallFailed
 */
export async function exportAll(folder: string, client: Client): Promise<Exported> {
  await client.check()
  const everything = async (path: string): Promise<Json> => (await client.read(path))?.body ?? {}
  const { apis = [] } = await everything('/api/apis/oas?p=-1')
  const { apis: streams = [] } = await everything('/api/apis/streams?p=-1')
  const { Data: policies = [] } = await everything('/api/portal/policies?p=-1')
  const assets = await everything('/api/assets')
  const { keys = [] } = await everything('/api/keys/detailed?p=-1&written=true')

  const write = (kind: string, id: string, document: Json) => {
    mkdirSync(join(folder, kind), { recursive: true })
    writeFileSync(join(folder, kind, `${fileName(id)}.yaml`), toYaml(document))
  }
  for (const document of [...apis, ...streams]) write('apis', document[EXTENSION].info.id, normal('api', document))
  for (const policy of policies) write('policies', policy.id, { policy: normal('policy', policy) })
  for (const asset of assets) write('assets', asset.id, { asset: normal('asset', asset) })
  // Tokens stand there as their hash, or, where keys are not hashed, as they are.
  const named = keys.filter(
    ({ key_id, key_hash }: Json) => key_id !== '' && key_id !== key_hash && !looksLikeToken(key_id)
  )
  const open = named.filter(({ data }: Json) => !data.basic_auth_data)
  for (const { key_id, data } of open) write('keys', key_id, { key: { id: key_id, ...normal('key', data) } })
  const written = { api: apis.length + streams.length, policy: policies.length, asset: assets.length, key: open.length }
  return { ...written, left: named.length - open.length }
}

/** An id as a file's name: what file systems could misread is escaped, and what is too long ends in its hash. */
function fileName(id: string): string {
  const escaped = encodeURIComponent(id).replace(/^\./, '%2E')
  if (escaped.length <= 150) return escaped
  return `${escaped.slice(0, 100).replace(/%.?$/, '')}-${createHash('sha256').update(id).digest('hex').slice(0, 16)}`
}
