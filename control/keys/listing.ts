import type { KeyRecord } from '../../gateway/keys/keys.ts'
import { type PageAsked, pagesOf } from '../page.ts'
import type { ControlTools } from '../tools.ts'
import { type KeyDocument, opened } from './reading.ts'

/** Lists of keys, oldest first. Custom ids are known by name; so is a token only where keys are not hashed. */

export interface Wanted {
  /** Null: of all organisations. */
  readonly org: string | null
  /** A part of the id as the list shows it. */
  readonly part?: string
  /** Keys that open this API. */
  readonly apiId?: string
}

/** The id of a key as lists show it. */
export function listedId({ id, body }: KeyDocument, { settings }: Pick<ControlTools, 'settings'>): string {
  return body.generated && settings.gateway.hash_keys ? id : (body.name ?? id)
}

/** Whether the settings let anybody list keys. */
export function mayList({ gateway }: ControlTools['settings']): boolean {
  return !gateway.hash_keys || gateway.enable_hashed_keys_listing
}

/** Everything that is wanted. */
export async function* everyKey({ org, part = '', apiId }: Wanted, tools: ControlTools): AsyncGenerator<KeyDocument> {
  for await (const documents of tools.store.each<KeyRecord>('key', org === null ? {} : { org })) {
    for (const document of documents) {
      if (!listedId(document, tools).includes(part)) continue
      if (apiId === undefined || (await opened(document, tools))?.has(apiId)) yield document
    }
  }
}

/** One page. Without conditions it is a page of the store; conditions look at every key. */
export async function pageOfKeys(
  wanted: Wanted,
  asked: PageAsked,
  tools: ControlTools
): Promise<{ documents: readonly KeyDocument[]; pages: number }> {
  const { org, part = '', apiId } = wanted
  if (part === '' && apiId === undefined) {
    const { documents, total } = await tools.store.list<KeyRecord>('key', {
      ...(org === null ? {} : { org }),
      ...asked
    })
    return { documents, pages: pagesOf(total, asked) }
  }
  const from = (asked.page - 1) * asked.size
  const documents: KeyDocument[] = []
  let total = 0
  for await (const document of everyKey(wanted, tools)) {
    if (total >= from && total < from + asked.size) documents.push(document)
    total++
  }
  return { documents, pages: pagesOf(total, asked) }
}
