import { ASSET_KIND, type Asset } from '../config/shape/asset.ts'
import { Conflict, type Document, type Revision, type Store, type Write } from '../gateway/store/store.ts'
import { type Caller, owns } from './caller.ts'
import { type Call, Refused } from './endpoint.ts'
import { newId } from './ids.ts'
import { holderOf, NameTaken, nameWrites } from './names.ts'
import type { ControlTools } from './tools.ts'
import { tried } from './tries.ts'

/** Keeping assets: under their database ids, with custom ids that are unique in an organisation (semantics §1.1, §2.1). */

/** Body of a stored `asset` document; its id is `_id`. */
export type AssetRecord = Required<Asset>

type Asked = Pick<Call<unknown, unknown, unknown>, 'caller' | 'matched' | 'changed'>
type Tools = Pick<ControlTools, 'store' | 'clock' | 'random'>

const CONTROL = /[\x00-\x1f\x7f]/

/** An asset that the caller may see, by database id or else custom id; null: none. */
export async function findAsset(
  id: string,
  caller: Caller,
  { store }: { store: Pick<Store, 'get'> }
): Promise<Document<AssetRecord> | null> {
  const direct = await store.get<AssetRecord>('asset', id)
  if (direct !== null && owns(caller, direct.org)) return direct
  const holder = await holderOf('asset', { org: caller.org ?? 'default', name: id }, store)
  return holder === null ? null : store.get<AssetRecord>('asset', holder)
}

/** @throws Refused 403 for another organisation, 422 for a kind that is not known */
export function checkAsset({ kind, org_id }: Asset, caller: Caller): void {
  if (kind && kind !== ASSET_KIND) throw new Refused(422, unsupported(kind))
  if (org_id && !owns(caller, org_id))
    throw new Refused(403, 'access denied: the asset belongs to another organisation')
}

export const unsupported = (kind: string) => `unsupported asset kind: '${kind.slice(0, 100)}'`

/** @throws Refused */
export async function createAsset(given: Asset, { caller }: Asked, tools: Tools): Promise<AssetRecord> {
  const _id = newId(tools)
  const org = given.org_id || caller.org || 'default'
  const asset = record(given, _id, org, tools)
  await put(null, asset, tools)
  return asset
}

/**
 * Changes an asset from what it is now, whoever else changes it.
 * @param make the asset as it should be; what is read only is not looked at
 * @throws Refused
 */
export async function changeAsset(
  id: string,
  make: (present: AssetRecord) => Asset,
  unknown: string,
  { caller, matched, changed }: Asked,
  tools: Tools
): Promise<{ asset: AssetRecord; rev: Revision }> {
  return change(id, unknown, caller, tools, async present => {
    matched(present.rev)
    const given = make(present.body)
    checkAsset(given, caller)
    const asset = record(given, present.id, present.org, tools)
    changed(present.body, asset)
    await put(present, asset, tools)
    return { asset, rev: present.rev + 1 }
  })
}

/** @throws Refused */
export async function removeAsset(
  id: string,
  unknown: string,
  { caller, matched }: Asked,
  tools: Tools
): Promise<void> {
  const { store } = tools
  await change(id, unknown, caller, tools, async ({ id, org, rev, body }) => {
    matched(rev)
    const freed = await nameWrites('asset', id, { org, name: body.id }, null, store)
    return store.commit([{ kind: 'asset', id, body: null, expect: rev }, ...freed])
  })
}

function change<T>(
  id: string,
  unknown: string,
  caller: Caller,
  tools: Tools,
  write: (present: Document<AssetRecord>) => Promise<T>
): Promise<T> {
  return tried('asset', async () => {
    const present = await findAsset(id, caller, tools)
    if (present === null) throw new Refused(404, unknown)
    return write(present)
  })
}

function record(given: Asset, _id: string, org_id: string, { clock }: Pick<Tools, 'clock'>): AssetRecord {
  const last_updated = new Date(clock.now()).toISOString()
  const { name = '', description = '', data = {} } = given
  return { _id, id: given.id || _id, kind: ASSET_KIND, name, description, data, org_id, last_updated }
}

/** @throws Conflict; Refused 400 or 409 for its custom id */
async function put(present: Document<AssetRecord> | null, asset: AssetRecord, { store }: Tools): Promise<void> {
  const { _id, id, org_id: org } = asset
  if (CONTROL.test(id))
    throw new Refused(400, 'error reading json body.', {
      more: { faults: [{ pointer: '/id', message: 'must not contain control characters' }] }
    })
  const taken = () => new Refused(409, `Asset ID already exists: '${id}'.`)
  // A custom id that is another's database id would lead there.
  if (id !== _id && (await store.get('asset', id))?.org === org) throw taken()
  const before = present === null ? null : { org, name: present.body.id }
  try {
    const writes: Write[] = await nameWrites('asset', _id, before, { org, name: id }, store)
    await store.commit([{ kind: 'asset', id: _id, org, body: asset, expect: present?.rev ?? 0 }, ...writes])
  } catch (cause) {
    if (cause instanceof NameTaken) throw taken()
    if (present === null && cause instanceof Conflict) throw taken()
    throw cause
  }
}
