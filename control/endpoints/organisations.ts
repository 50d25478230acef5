import Type from 'typebox'
import { Organisation } from '../../config/shape/organisation.ts'
import type { Document, Kind } from '../../gateway/store/store.ts'
import { Answer, type Endpoint, endpoint, etag, Refused } from '../endpoint.ts'
import { entered, entranceOf } from '../entrance.ts'
import { envelope, ok } from '../envelope.ts'
import { newId } from '../ids.ts'
import { pageAsked, pagesOf, paging, streamedList } from '../page.ts'
import { emptied } from '../portal/unit.ts'
import type { ControlTools } from '../tools.ts'
import { changing, tried } from '../tries.ts'

/** Organisations, by the admin secret (semantics §2.11). `default` is always there, written or not (outside.md §5). */

const strict = { additionalProperties: false } as const
const nothing = Type.Object({}, strict)
const OrganisationId = Type.Object({ id: Type.String({ minLength: 1, maxLength: 256 }) }, strict)
const noBody = { bodyForm: 'none', body: Type.Unknown(), malformed: '' } as const
const common = { door: 'admin', query: nothing } as const
const withBody = { bodyForm: 'json', body: Organisation, malformed: 'Request body malformed' } as const
const UNKNOWN = 'Organisation not found'
const DEFAULT = 'default'

/** Body of a stored `organisation` document. */
type OrganisationRecord = Required<Organisation>
type Stored = Document<OrganisationRecord>

const unwritten: OrganisationRecord = {
  id: DEFAULT,
  owner_name: DEFAULT,
  owner_slug: DEFAULT,
  cname: '',
  cname_enabled: false,
  created_at: '0001-01-01T00:00:00Z'
}

const listOrganisations = endpoint({
  ...common,
  ...noBody,
  method: 'GET',
  path: '/admin/organisations',
  summary: 'All organisations',
  params: nothing,
  query: Type.Object(paging, strict),
  answer: Type.Object({ organisations: Type.Array(Organisation), pages: Type.Integer() }, strict),
  async handle({ query }, { store, settings }) {
    const asked = pageAsked(query, settings)
    // While nobody has written `default`, it stands behind the others: their pages do not shift.
    const extra = (await store.get('organisation', DEFAULT)) === null ? [unwritten] : []
    if (asked.page < 0) return streamedList('organisations', 'pages', every(store, extra))
    const { documents, total } = await store.list<OrganisationRecord>('organisation', asked)
    const last = Math.floor(total / asked.size) + 1 === asked.page ? extra : []
    return {
      organisations: [...documents.map(({ body }) => body), ...last],
      pages: pagesOf(total + extra.length, asked)
    }
  }
})

const addOrganisation = endpoint({
  ...common,
  ...withBody,
  method: 'POST',
  path: '/admin/organisations',
  summary: 'Creates an organisation, under an id of your own that none ever had, or a new one',
  params: nothing,
  answer: envelope(Type.String({ description: 'Id of the organisation' })),
  async handle({ body }, tools) {
    const { store, clock } = tools
    const { owner_name, owner_slug = '', cname = '', cname_enabled = false } = body
    if (owner_name === undefined)
      throw new Refused(400, withBody.malformed, {
        more: { faults: [{ pointer: '/owner_name', message: 'is required' }] }
      })
    const id = body.id || newId(tools)
    const created_at = new Date(clock.now()).toISOString()
    const made: OrganisationRecord = { id, owner_name, owner_slug, cname, cname_enabled, created_at }
    await tried('organisation', async () => {
      const entrance = await entranceOf(id, store)
      if (id === DEFAULT || (await store.get('organisation', id)) !== null)
        throw new Refused(409, 'An organisation of this id exists already')
      if (entrance.closed)
        throw new Refused(409, 'An organisation of this id was deleted: its id cannot be given again')
      await store.commit([{ kind: 'organisation', id, org: id, body: made, expect: 0 }, entered(entrance)])
    })
    return new Answer(200, ok('Org created', id), etag(1))
  }
})

const readOrganisation = endpoint({
  ...common,
  ...noBody,
  method: 'GET',
  path: '/admin/organisations/{id}',
  summary: 'An organisation',
  params: OrganisationId,
  answer: Organisation,
  async handle({ params }, tools) {
    const { body, rev } = await present(params.id, tools)
    return new Answer(200, body, etag(rev))
  }
})

const updateOrganisation = endpoint({
  ...common,
  ...withBody,
  method: 'PUT',
  path: '/admin/organisations/{id}',
  summary: 'Changes the members that are given',
  params: OrganisationId,
  answer: envelope(Type.Null()),
  async handle({ params: { id }, body, matched, changed }, tools) {
    const { created_at, ...given } = body
    if (given.id && given.id !== id) throw new Refused(400, 'The id of an organisation does not change')
    const rev = await changing('organisation', id, async () => {
      const before = await present(id, tools)
      matched(before.rev)
      const next: OrganisationRecord = { ...before.body, ...given, id }
      changed(before.body, next)
      await tools.store.commit([{ kind: 'organisation', id, org: id, body: next, expect: before.rev }])
      return before.rev + 1
    })
    return new Answer(200, ok('Org updated'), etag(rev))
  }
})

const deleteOrganisation = endpoint({
  ...common,
  ...noBody,
  method: 'DELETE',
  path: '/admin/organisations/{id}',
  summary: 'Deletes an organisation that has nothing any more; its audit records stay, and its id is never given again',
  params: OrganisationId,
  answer: envelope(Type.Null()),
  async handle({ params: { id }, matched }, tools) {
    if (id === DEFAULT) throw new Refused(409, 'The organisation default is always there')
    // Users may come into it meanwhile, and its portal may change.
    await tried('organisation', async () => {
      const entrance = await entranceOf(id, tools.store)
      const { rev } = await present(id, tools)
      matched(rev)
      const portal = await emptied(id, tools.store)
      const left = [...(await belongings(id, tools)), ...(portal === null ? ['portal'] : [])]
      if (left.length > 0) throw new Refused(409, `The organisation still has documents: ${left.join(', ')}`)
      const writes = [entered(entrance, { closed: true }), ...(portal ?? [])]
      await tools.store.commit([{ kind: 'organisation', id, body: null, expect: rev }, ...writes])
    })
    return ok('Org deleted')
  }
})

/** Revision 0: `default`, as long as nobody has written it. @throws Refused 404 */
async function present(id: string, { store }: Pick<ControlTools, 'store'>): Promise<Pick<Stored, 'body' | 'rev'>> {
  const document = await store.get<OrganisationRecord>('organisation', id)
  if (document !== null) return document
  if (id === DEFAULT) return { body: unwritten, rev: 0 }
  throw new Refused(404, UNKNOWN)
}

const OWNED: readonly Kind[] = ['user', 'group', 'key', 'policy', 'api', 'asset', 'certificate', 'hook']

/** The kinds of which it has documents, its portal apart. */
async function belongings(org: string, { store, apis }: ControlTools): Promise<string[]> {
  const pages = await Promise.all(
    OWNED.map(kind => store.list(kind, { org, page: 1, size: 1, idsOnly: true }).then(({ total }) => total))
  )
  const kinds = OWNED.filter((_, i) => pages[i]! > 0)
  const inFolder = !kinds.includes('api') && apis.all().some(({ orgId }) => orgId === org)
  return inFolder ? [...kinds, 'api'] : [...kinds]
}

async function* every(
  store: ControlTools['store'],
  extra: readonly OrganisationRecord[]
): AsyncGenerator<OrganisationRecord> {
  for await (const documents of store.each<OrganisationRecord>('organisation', {}))
    for (const { body } of documents) yield body
  yield* extra
}

export const organisations: readonly Endpoint[] = [
  listOrganisations,
  addOrganisation,
  readOrganisation,
  updateOrganisation,
  deleteOrganisation
]
