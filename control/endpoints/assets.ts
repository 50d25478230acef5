import Type from 'typebox'
import { isObject } from '../../config/report.ts'
import { ASSET_KIND, Asset } from '../../config/shape/asset.ts'
import { compile, Invalid } from '../../config/validate.ts'
import type { Document } from '../../gateway/store/store.ts'
import {
  type AssetRecord,
  changeAsset,
  checkAsset,
  createAsset,
  findAsset,
  removeAsset,
  unsupported
} from '../assets.ts'
import { Answer, type Endpoint, endpoint, etag, Refused, toldFaults } from '../endpoint.ts'
import { mergePatch } from '../mergePatch.ts'
import { flat, mapped, pageAsked, paging, streamedJson } from '../page.ts'

/** Assets (specification, Assets; semantics §1.1, §2.1). */

const strict = { additionalProperties: false } as const
const AssetId = Type.Object({ assetID: Type.String({ description: 'Database id or custom id' }) }, strict)
const nothing = Type.Object({}, strict)
const Written = Type.Object(
  {
    ID: Type.String({ description: 'Custom id' }),
    Message: Type.String(),
    Meta: Type.String({ description: 'Database id' }),
    Status: Type.Literal('OK')
  },
  strict
)
const Removed = Type.Object({ Message: Type.String(), Meta: Type.Null(), Status: Type.Literal('OK') }, strict)
const malformed = 'error reading json body.'
const UNKNOWN = 'Asset not found.'

const written = ({ id, _id }: AssetRecord, Message: string) => ({ ID: id, Message, Meta: _id, Status: 'OK' })

const list = endpoint({
  method: 'GET',
  path: '/api/assets',
  door: 'management',
  summary: 'Lists assets, oldest first; without p and page_size: all of them',
  params: nothing,
  query: Type.Object({ ...paging, kind: Type.Optional(Type.String({ description: ASSET_KIND })) }, strict),
  bodyForm: 'none',
  body: Type.Unknown(),
  malformed,
  answer: Type.Array(Asset),
  async handle({ query, caller }, { store, settings }) {
    if (query.kind && query.kind !== ASSET_KIND) throw new Refused(400, unsupported(query.kind))
    const which = caller.org === null ? {} : { org: caller.org }
    const asked = pageAsked(query, settings)
    const whole = query.p === undefined && query.page_size === undefined
    const show = ({ body }: Document<AssetRecord>) => body
    if (whole || asked.page < 0)
      return streamedJson('[', mapped(flat(store.each<AssetRecord>('asset', which)), show), () => ']')
    const { documents } = await store.list<AssetRecord>('asset', { ...which, ...asked })
    return documents.map(show)
  }
})

const read = endpoint({
  method: 'GET',
  path: '/api/assets/{assetID}',
  door: 'management',
  summary: 'Reads an asset',
  params: AssetId,
  query: nothing,
  bodyForm: 'none',
  body: Type.Unknown(),
  malformed,
  answer: Asset,
  async handle({ params, caller }, tools) {
    const document = await findAsset(params.assetID, caller, tools)
    if (document === null) throw new Refused(404, 'Asset not found')
    return new Answer(200, document.body, etag(document.rev))
  }
})

const create = endpoint({
  method: 'POST',
  path: '/api/assets',
  door: 'management',
  summary: 'Creates an asset',
  params: nothing,
  query: nothing,
  bodyForm: 'document',
  body: Asset,
  malformed,
  empty: malformed,
  answer: Written,
  status: 201,
  async handle(call, tools) {
    const given = whole(call.body)
    checkAsset(given, call.caller)
    return new Answer(201, written(await createAsset(given, call, tools), 'asset created'), etag(1))
  }
})

const update = endpoint({
  method: 'PUT',
  path: '/api/assets/{assetID}',
  door: 'management',
  summary: 'Updates an asset; id and data stay where none are given',
  params: AssetId,
  query: nothing,
  bodyForm: 'document',
  body: Asset,
  malformed,
  empty: malformed,
  answer: Written,
  async handle(call, tools) {
    const given = whole(call.body)
    const make = ({ id, data }: AssetRecord): Asset => ({ data, ...given, id: given.id || id })
    const { asset, rev } = await changeAsset(call.params.assetID, make, UNKNOWN, call, tools)
    return new Answer(200, written(asset, 'asset updated'), etag(rev))
  }
})

const shape = compile(Asset)

const patch = endpoint({
  method: 'PATCH',
  path: '/api/assets/{assetID}',
  door: 'management',
  summary: 'Changes members of an asset: JSON Merge Patch (RFC 7396)',
  params: AssetId,
  query: nothing,
  bodyForm: 'document',
  takes: ['application/merge-patch+json', 'application/json', 'application/yaml'],
  body: Type.Record(Type.String(), Type.Unknown()),
  malformed,
  empty: malformed,
  answer: Written,
  async handle(call, tools) {
    if (!isObject(call.body)) throw new Refused(400, malformed)
    const make = (present: AssetRecord): Asset => shaped(mergePatch(present, call.body))
    const { asset, rev } = await changeAsset(call.params.assetID, make, UNKNOWN, call, tools)
    return new Answer(200, written(asset, 'asset updated'), etag(rev))
  }
})

const remove = endpoint({
  method: 'DELETE',
  path: '/api/assets/{assetID}',
  door: 'management',
  summary: 'Deletes an asset',
  params: AssetId,
  query: nothing,
  bodyForm: 'none',
  body: Type.Unknown(),
  malformed,
  answer: Removed,
  async handle(call, tools) {
    await removeAsset(call.params.assetID, 'asset not found', call, tools)
    return { Message: 'Asset removed successfully', Meta: null, Status: 'OK' }
  }
})

export const assets: readonly Endpoint[] = [list, create, read, update, patch, remove]

/** @throws Refused 400 for a large integer in the place of an object, which looks like one to the shape */
function whole(given: Asset): Asset {
  if (!isObject(given) || (given.data !== undefined && !isObject(given.data))) throw new Refused(400, malformed)
  return given
}

/** @throws Refused 400 */
function shaped(merged: unknown): Asset {
  try {
    return whole(shape(merged))
  } catch (cause) {
    if (!(cause instanceof Invalid)) throw cause
    throw new Refused(400, malformed, { more: { faults: toldFaults(cause.faults) } })
  }
}
