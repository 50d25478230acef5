import { mkdirSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { toYaml } from '../../config/yaml.ts'
import { EXTENSION } from '../../gateway/api.ts'
import type { Client } from './client.ts'
import type { DocumentKind, Json } from './documents.ts'
import { normal } from './normal.ts'

/**
 * Writes everything that `apply` can bring back, one file a document: APIs, policies, assets, and keys that have an id of
 * their own (no secrets). @returns how many of each. @throws CallFailed
 */
export async function exportAll(folder: string, client: Client): Promise<Record<DocumentKind, number>> {
  const everything = async (path: string): Promise<Json> => (await client.read(path))?.body ?? {}
  const { apis = [] } = await everything('/api/apis/oas?p=-1')
  const { apis: streams = [] } = await everything('/api/apis/streams?p=-1')
  const { Data: policies = [] } = await everything('/api/portal/policies?p=-1')
  const assets = await everything('/api/assets')
  const { keys = [] } = await everything('/api/keys/detailed?p=-1')

  const write = (kind: string, id: string, document: Json) => {
    mkdirSync(join(folder, kind), { recursive: true })
    writeFileSync(join(folder, kind, `${fileName(id)}.yaml`), toYaml(document))
  }
  for (const document of [...apis, ...streams]) write('apis', document[EXTENSION].info.id, normal('api', document))
  for (const policy of policies) write('policies', policy.id, { policy: normal('policy', policy) })
  for (const asset of assets) write('assets', asset.id, { asset: normal('asset', asset) })
  const named = keys.filter(({ key_id, key_hash }: Json) => key_id !== '' && key_id !== key_hash && !isHash(key_id))
  for (const { key_id, data } of named) write('keys', key_id, { key: { id: key_id, ...normal('key', data) } })
  return { api: apis.length + streams.length, policy: policies.length, asset: assets.length, key: named.length }
}

const isHash = (id: string) => /^[0-9a-f]{64}$/.test(id)

/** An id as a file's name: what file systems could misread is escaped. */
function fileName(id: string): string {
  return encodeURIComponent(id).replace(/^\./, '%2E').slice(0, 200)
}
